/// Many hosts that open a link to one at the same moment, each with a certificate of its own, over real handshakes:
/// how long until all are in, and the CPU of the process that is called and of the one that holds the callers. A caller
/// that is cut, for handshakes are limited in number and time, tries again as a worker's connector does.

#include "benchmarks/pair_cost.hpp"
#include "benchmarks/second_process.hpp"
#include "links/pump.hpp"
#include "session/reconnection.hpp"

#include <CLI/CLI.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fmt/core.h>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/resource.h>
#include <thread>

namespace dynamix::benchmarks {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{120};
constexpr const char* called_host = "hub";

std::string caller_name(std::size_t index) {
  return "w" + std::to_string(index);
}

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

/// Opens a link as a worker does. Returns the attempts that it took; 0: it has none after the patience.
std::size_t join(links::pump& own, std::uint16_t port) {
  const auto begin = clock::now();
  session::reconnection next({.hosts = {called_host}}, 0);
  std::string problem;
  for (std::size_t attempts = 1; clock::now() - begin < patience; ++attempts) {
    if (own.connect(called_host, "127.0.0.1", port, std::chrono::seconds(1), problem) >= 0)
      return attempts; // kept open until the process ends
    std::this_thread::sleep_for(std::chrono::duration<double>(next.failed(seconds_since(begin))));
  }
  return 0;
}

/// The process of all callers: says when it is ready, waits for a byte, joins, and says what that took.
int call(const std::string& keys, std::size_t hosts, std::uint16_t port) {
  std::vector<std::unique_ptr<links::pump>> pumps;
  for (std::size_t i = 0; i < hosts; ++i) {
    std::string problem;
    const auto name = caller_name(i);
    pumps.push_back(
        links::pump::start({.directory = links::host_directory(keys, name), .host = name, .accepted = {}}, problem));
    if (!pumps.back())
      throw std::runtime_error(problem);
  }
  std::atomic<bool> go = false;
  std::atomic<std::size_t> attempts = 0;
  std::atomic<std::size_t> joined = 0;
  std::vector<std::thread> callers;
  for (const auto& own : pumps)
    callers.emplace_back([&, pump = own.get()] {
      go.wait(false);
      const auto took = join(*pump, port);
      attempts += took;
      joined += took > 0 ? 1 : 0;
    });
  second_process::say("ready");
  second_process::wait_for_word();
  const double cpu = process_cpu_seconds();
  const auto begin = clock::now();
  go = true;
  go.notify_all();
  for (auto& each : callers)
    each.join();
  second_process::say(
      fmt::format("{} {} {} {}", joined.load(), attempts.load(), seconds_since(begin), process_cpu_seconds() - cpu));
  second_process::wait_for_word(); // links stay open until they are counted
  ::_exit(0);                      // without the ends of a thousand pumps, one after the other
}

struct outcome {
  double seconds = 0; ///< until the last link was handed over
  double called_cpu = 0;
  double calling_cpu = 0;
  double attempts = 0;
  double refused = 0;
};

outcome measure(const std::string& keys, std::size_t hosts, std::size_t handshakes) {
  links::pump_options options{
      .directory = links::host_directory(keys, called_host), .host = called_host, .accepted = {}};
  for (std::size_t i = 0; i < hosts; ++i)
    options.accepted.insert(caller_name(i));
  std::string problem;
  const std::shared_ptr<links::pump> pump = links::pump::start(std::move(options), problem);
  const auto door = links::door::start(
      {.directory = links::host_directory(keys, called_host), .host = called_host, .handshakes_max = handshakes},
      problem);
  if (!pump || !door)
    throw std::runtime_error(problem);
  door->lead_to(pump);
  if (problem = door->listen("127.0.0.1", 0); !problem.empty())
    throw std::runtime_error(problem);
  const int queue = pump->take_links();
  const second_process callers(
      {"--call", std::to_string(door->port()), "--keys", keys, "--hosts", std::to_string(hosts)});
  callers.answer();
  const double cpu = process_cpu_seconds();
  const auto begin = clock::now();
  callers.give_word();
  std::vector<int> open;
  // One whose caller has given up on it is replaced by that caller's next.
  for (pollfd waiting{.fd = queue, .events = POLLIN, .revents = 0};
       open.size() < hosts && ::poll(&waiting, 1, 30000) == 1;)
    if (const auto link = links::take_link(queue); link.plain >= 0)
      open.push_back(link.plain);
  outcome found{.seconds = seconds_since(begin), .called_cpu = process_cpu_seconds() - cpu};
  const auto said = callers.answer();
  std::size_t joined = 0;
  double calling_seconds = 0;
  if (std::sscanf(said.c_str(), "%zu %lf %lf %lf", &joined, &found.attempts, &calling_seconds, &found.calling_cpu) !=
          4 ||
      joined != hosts)
    throw std::runtime_error(fmt::format("{} of {} joined", joined, hosts));
  found.seconds = std::max(found.seconds, calling_seconds);
  found.refused = static_cast<double>(door->counts().refused);
  callers.give_word();
  for (const int each : open)
    ::close(each);
  ::close(queue);
  return found;
}

void measure_rounds(std::size_t rounds, std::size_t hosts, std::size_t handshakes) {
  std::vector<std::string> names = {called_host};
  for (std::size_t i = 0; i < hosts; ++i)
    names.push_back(caller_name(i));
  const passing_keys keys(names);
  std::vector<outcome> found;
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto& one = found.emplace_back(measure(keys.path(), hosts, handshakes));
    std::printf("link_joins round %zu/%zu: %zu hosts in %.2f s, %.0f attempts, %.0f cut or refused\n", round + 1,
                rounds, hosts, one.seconds, one.attempts, one.refused);
    std::fflush(stdout);
  }
  const auto middle = [&](double outcome::*value) {
    std::vector<double> values;
    for (const auto& one : found)
      values.push_back(one.*value);
    return median(values);
  };
  const auto each = static_cast<double>(hosts);
  std::printf(
      "link_joins %zu at once: %.2f s; CPU a join: %.2f ms of the called host, %.2f ms of the caller; attempts a "
      "join %.2f\n",
      hosts, middle(&outcome::seconds), 1000 * middle(&outcome::called_cpu) / each,
      1000 * middle(&outcome::calling_cpu) / each, middle(&outcome::attempts) / each);
}

} // namespace
} // namespace dynamix::benchmarks

int main(int count, char** words) {
  CLI::App app("How long many hosts take to open links to one");
  std::size_t rounds = 5;
  std::size_t hosts = 1024;
  std::size_t handshakes = 0;
  std::string keys;
  std::uint16_t port = 0;
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1000));
  app.add_option("--hosts", hosts)->check(CLI::Range(1, 4096));
  app.add_option("--handshakes", handshakes, "At a time (default: as many as hosts, as actors/host/host_links has it)");
  app.add_option("--call", port, "Be the callers of this port of loopback")->group("");
  app.add_option("--keys", keys, "Of the callers")->group("");
  CLI11_PARSE(app, count, words);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  try {
    if (port != 0)
      return dynamix::benchmarks::call(keys, hosts, port);
    dynamix::benchmarks::measure_rounds(rounds, hosts, handshakes > 0 ? handshakes : std::max<std::size_t>(hosts, 256));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "link_joins: %s\n", error.what());
    return 1;
  }
  return 0;
}
