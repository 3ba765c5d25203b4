/// What a member of a group says on its connection to another: frames of the workers' mesh.

#include "exchange/mesh.hpp"
#include "tests/fuzz/described_file.hpp"
#include "tests/fuzz/targets.hpp"

#include <array>
#include <future>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace dynamix::fuzz {
namespace {

/// A message that the mesh waits for or sends, which is told once.
struct told_message {
  std::uint64_t lane = 0;
  std::vector<std::byte> bytes;
  std::promise<std::string> told = {};
};

/// Returns how many messages came or left whole.
std::size_t talk(byte_span said) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0)
    return 0;
  auto mesh = exchange::mesh::start({-1, ends[0]}, {3, 5}, 0);
  std::array<told_message, 3> incoming{told_message{1, std::vector<std::byte>(8)},
                                       told_message{1, std::vector<std::byte>(8)},
                                       told_message{2, std::vector<std::byte>(300)}};
  std::array<told_message, 2> outgoing{told_message{3, std::vector<std::byte>(16)},
                                       told_message{3, std::vector<std::byte>(5)}};
  mesh->run([&, raw = mesh.get()] {
    for (auto& each : incoming)
      raw->receive(1, each.lane, each.bytes, [&each](const std::string& problem) { each.told.set_value(problem); });
    for (auto& each : outgoing)
      raw->send(1, each.lane, each.bytes, [&each](const std::string& problem) { each.told.set_value(problem); });
  });
  [[maybe_unused]] const auto sent = ::send(ends[1], said.data(), said.size(), MSG_NOSIGNAL);
  ::shutdown(ends[1], SHUT_WR);
  std::size_t whole = 0;
  for (auto* each : {&incoming[0], &incoming[1], &incoming[2], &outgoing[0], &outgoing[1]})
    whole += each->told.get_future().get().empty() ? 1 : 0;
  ::close(ends[1]);
  mesh->break_up("this input is over");
  const std::weak_ptr<exchange::mesh> its_thread = mesh;
  mesh.reset();
  while (!its_thread.expired())
    std::this_thread::yield();
  return whole;
}

} // namespace

target mesh_target() {
  return {"mesh", [](byte_span bytes) { talk(bytes); }};
}

} // namespace dynamix::fuzz
