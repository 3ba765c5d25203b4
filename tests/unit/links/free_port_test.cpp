#include "links/free_port.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace dynamix::links {
namespace {

using ports = std::array<std::uint16_t, 20>;

ports take_ports() {
  ports taken{};
  for (auto& port : taken)
    port = take_free_port();
  return taken;
}

TEST(FreePort, IsGivenToOneProcessAloneBeforeAnybodyListensThere) {
  take_free_port(); // from here on both processes would try the same ones
  int go[2];
  int answer[2];
  ASSERT_EQ(::pipe(go), 0);
  ASSERT_EQ(::pipe(answer), 0);
  const auto child = ::fork();
  if (child == 0) {
    char byte = 0;
    bool whole = ::read(go[0], &byte, 1) == 1;
    const auto taken = take_ports();
    whole = whole && ::write(answer[1], taken.data(), sizeof taken) == sizeof taken;
    ::_exit(whole ? 0 : 1);
  }
  const auto ours = take_ports();
  EXPECT_EQ(::write(go[1], "x", 1), 1);
  ports theirs{};
  EXPECT_EQ(::read(answer[0], theirs.data(), sizeof theirs), static_cast<ssize_t>(sizeof theirs));
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::set<std::uint16_t> all(ours.begin(), ours.end());
  all.insert(theirs.begin(), theirs.end());
  EXPECT_EQ(all.size(), ours.size() + theirs.size());
  EXPECT_FALSE(all.contains(0));
}

} // namespace
} // namespace dynamix::links
