/// What an all-reduce costs over links (TLS 1.3, both sides with a certificate) against one in the clear: two ranks in
/// this process, in a group of each form, in turns. CPU is that of all threads, halved: a host's.

#include "benchmarks/pair_cost.hpp"
#include "exchange/group.hpp"
#include "exchange/peer_links.hpp"
#include "tests/unit/exchange/stores.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace dynamix::benchmarks {
namespace {

constexpr std::array<const char*, 2> hosts = {"ada", "ben"};
constexpr std::array<double, 3> megabytes = {0.25, 4, 37};

struct cost {
  double wall_seconds = 0;
  double cpu_seconds = 0;
};

/// Two ranks of one group.
class two_ranks {
public:
  two_ranks(const std::string& name, const std::array<std::shared_ptr<exchange::peer_links>, 2>& links) {
    std::array<std::exception_ptr, 2> problems;
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t rank = 0; rank < 2; ++rank)
        threads.emplace_back([&, rank] {
          try {
            peers_[rank] = exchange::join({.rank = rank, .members = {0, 1}, .store_prefix = name, .links = links[rank]},
                                          meeting_, never_);
          } catch (...) {
            problems[rank] = std::current_exception();
          }
        });
    }
    for (const auto& problem : problems)
      if (problem)
        std::rethrow_exception(problem);
  }

  /// The mean of `times` sums.
  cost sum(std::size_t floats, std::size_t times) {
    std::array<std::unique_ptr<exchange::bucket>, 2> buckets;
    for (std::size_t rank = 0; rank < 2; ++rank)
      buckets[rank] = peers_[rank]->make_bucket(exchange::element::float32, floats, 0);
    const auto begin = std::chrono::steady_clock::now();
    const double cpu = process_cpu_seconds();
    for (std::size_t i = 0; i < times; ++i) {
      for (const auto& each : buckets)
        each->start();
      for (const auto& each : buckets)
        each->wait();
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    const auto count = static_cast<double>(times);
    return {.wall_seconds = wall.count() / count, .cpu_seconds = (process_cpu_seconds() - cpu) / 2 / count};
  }

private:
  exchange::memory_store meeting_;
  exchange::interruption never_;
  std::array<std::unique_ptr<exchange::group>, 2> peers_;
};

void measure(std::size_t rounds) {
  const passing_keys keys({hosts.begin(), hosts.end()});
  std::array<std::shared_ptr<exchange::peer_links>, 2> links;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    std::string problem;
    links[rank] = exchange::peer_links::start({.directory = links::host_directory(keys.path(), hosts[rank]),
                                               .host = hosts[rank],
                                               .accepted = {hosts.begin(), hosts.end()}},
                                              "127.0.0.1", {{hosts[0], "127.0.0.1"}, {hosts[1], "127.0.0.1"}}, problem);
    if (!links[rank])
      throw std::runtime_error(problem);
  }
  two_ranks clear("clear", {});
  two_ranks linked("linked", links);
  for (const double size : megabytes) {
    const auto floats = static_cast<std::size_t>(size * 1e6 / sizeof(float));
    const auto times = static_cast<std::size_t>(std::max(2.0, 20 / size));
    std::array<std::vector<double>, 2> wall;
    std::array<std::vector<double>, 2> cpu;
    std::vector<double> ratios;
    for (std::size_t round = 0; round <= rounds; ++round) { // the first one is a warm-up
      std::array<cost, 2> found;
      for (std::size_t turn = 0; turn < 2; ++turn) {
        const auto form = (round + turn) % 2;
        found[form] = (form == 0 ? clear : linked).sum(floats, times);
      }
      if (round == 0)
        continue;
      ratios.push_back(found[1].cpu_seconds / found[0].cpu_seconds);
      for (std::size_t form = 0; form < 2; ++form) {
        wall[form].push_back(1e3 * found[form].wall_seconds);
        cpu[form].push_back(1e3 * found[form].cpu_seconds / size);
      }
    }
    std::printf("link_sums %.2f MB: ms a sum clear %.2f link %.2f; ms of CPU a MB and host clear %.2f link %.2f, "
                "ratio %.2f\n",
                size, median(wall[0]), median(wall[1]), median(cpu[0]), median(cpu[1]), median(ratios));
  }
}

} // namespace
} // namespace dynamix::benchmarks

int main(int count, char** words) {
  CLI::App app("Cost of an all-reduce over links");
  std::size_t rounds = 11;
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, count, words);
  try {
    dynamix::benchmarks::measure(rounds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "link_sums: %s\n", error.what());
    return 1;
  }
  return 0;
}
