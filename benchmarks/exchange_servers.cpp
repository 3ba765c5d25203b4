/// One rank of a comparison of the ring with servers: sums plain gradients, by turns in a ring, through servers of
/// equal shares, through servers of shares planned by the measured links, and by the same sums over plain sockets.
/// Prints JSON.

#include "benchmarks/socket_servers.hpp"
#include "exchange/link_rates.hpp"
#include "exchange/server_group.hpp"
#include "storage/splitmix64.hpp"
#include "tests/unit/exchange/stores.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <string>

namespace dynamix::benchmarks {

namespace {

struct servers_plan {
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::uint32_t extra = 0; ///< ranks, the last ones, that bring nothing and serve where shares are planned
  std::string address = "127.0.0.1";
  std::string meeting;
  std::uint32_t mib = 16;
  std::uint32_t bucket_kib = 1024;
  std::uint32_t rounds = 5;
  std::uint32_t steps = 2;   ///< of each rival in a round
  std::vector<double> links; ///< of all ranks, in relation to each other
};

/// A rival's own group, or its sockets, and the seconds of its steps.
struct contender {
  std::string name;
  std::unique_ptr<exchange::group> peers;
  std::vector<std::unique_ptr<exchange::bucket>> buckets = {};
  std::unique_ptr<socket_servers> sockets = {}; ///< null where there are peers
  std::vector<float> gradients = {};            ///< of the sockets
  std::vector<double> seconds = {};
  double cpu_seconds = 0; ///< of this process
};

std::size_t bucket_floats(const servers_plan& plan) {
  return std::size_t{plan.bucket_kib} * 1024 / sizeof(float);
}

exchange::place place_of(const servers_plan& plan, const char* name) {
  exchange::place own{.rank = plan.rank,
                      .members = std::vector<std::uint32_t>(plan.world - plan.extra),
                      .store_prefix = name,
                      .address = plan.address};
  std::iota(own.members.begin(), own.members.end(), 0U);
  return own;
}

exchange::place served_place_of(const servers_plan& plan) {
  auto own = place_of(plan, "planned");
  own.servers.resize(plan.extra);
  std::iota(own.servers.begin(), own.servers.end(), plan.world - plan.extra);
  return own;
}

std::vector<contender> join_all(const servers_plan& plan, exchange::store& meeting, const exchange::interruption& never,
                                exchange::summing_plan& measured) {
  const auto place = [&](const char* name) { return place_of(plan, name); };
  std::vector<contender> all;
  all.push_back({"ring", exchange::join(place("ring"), meeting, never)});
  all.push_back({"equal", exchange::sum_by_servers(exchange::join_ring(place("equal"), meeting, never),
                                                   std::vector<double>(plan.world - plan.extra, 1), never)});
  all.push_back({"planned", exchange::join(served_place_of(plan), meeting, never, exchange::summing::parameter_server,
                                           &measured)});
  const auto buckets = plan.mib * 1024 / plan.bucket_kib;
  for (auto& each : all)
    for (std::uint32_t i = 0; i < buckets; ++i)
      each.buckets.push_back(each.peers->make_bucket(exchange::element::float32, bucket_floats(plan), 2));
  all.push_back({.name = "sockets",
                 .peers = nullptr,
                 .sockets = std::make_unique<socket_servers>(plan.rank, plan.world - plan.extra, plan.address, meeting),
                 .gradients = std::vector<float>(buckets * bucket_floats(plan))});
  return all;
}

/// What the rank has to sum in all of the rival's buckets.
template <typename Action>
void for_each_gradient(contender& of, Action action) {
  std::size_t number = 0;
  for (auto& each : of.gradients)
    action(each, number++);
  for (const auto& bucket : of.buckets) {
    const auto gradients = std::get<std::span<float>>(bucket->gradients());
    for (auto& each : gradients)
      action(each, number++);
  }
}

void sum_all(const servers_plan& plan, contender& of) {
  if (of.sockets)
    return of.sockets->sum(of.gradients, bucket_floats(plan));
  for (const auto& each : of.buckets)
    each->start();
  for (const auto& each : of.buckets)
    each->wait();
}

/// That the sockets sum what servers of equal shares sum, to the bit. Leaves zeros. Throws where they do not.
void check_sockets(const servers_plan& plan, contender& equal, contender& sockets) {
  std::vector<float> sums;
  for (auto* of : {&equal, &sockets}) {
    storage::splitmix64 random(plan.rank);
    for_each_gradient(*of, [&](float& each, auto) { each = static_cast<float>(random.next() >> 40U) * 0x1p-12F; });
    sum_all(plan, *of);
    for_each_gradient(*of, [&](float& each, std::size_t number) {
      if (of == &equal)
        sums.push_back(each);
      else if (each != sums.at(number))
        throw std::runtime_error("sockets and servers sum differently");
      each = 0;
    });
  }
}

void run_step(const servers_plan& plan, exchange::group& meeting, contender& of, bool counts) {
  const std::int64_t here = 0;
  meeting.all_gather({&here, 1})->wait();
  const auto cpu = std::clock();
  const auto begin = std::chrono::steady_clock::now();
  sum_all(plan, of);
  if (!counts)
    return;
  of.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  of.cpu_seconds += static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
}

void compare(const servers_plan& plan) {
  exchange::file_store meeting(plan.meeting);
  const exchange::interruption never;
  if (plan.rank >= plan.world - plan.extra) {
    exchange::serve(served_place_of(plan), meeting, never, exchange::summing::parameter_server, [](const auto&) {});
    return;
  }
  exchange::summing_plan measured;
  auto all = join_all(plan, meeting, never, measured);
  auto& ring = *all.front().peers;
  check_sockets(plan, all.at(1), all.back());
  for (std::uint32_t round = 0; round <= plan.rounds; ++round) // the first one is a warm-up
    for (std::size_t turn = 0; turn < all.size(); ++turn)
      for (std::uint32_t step = 0; step < plan.steps; ++step)
        run_step(plan, ring, all[round % 2 == 0 ? turn : all.size() - 1 - turn], round > 0);
  std::string line;
  for (auto& each : all) {
    std::ranges::sort(each.seconds);
    const auto own = static_cast<std::int64_t>(1e9 * each.cpu_seconds / static_cast<double>(each.seconds.size()));
    const auto cpu = ring.all_gather({&own, 1})->wait();
    line += (line.empty() ? "{\"" : ", \"") + each.name +
            "\": {\"median_seconds\": " + std::to_string(each.seconds[each.seconds.size() / 2]) +
            ", \"cpu_seconds\": " +
            std::to_string(1e-9 * std::accumulate(cpu.begin(), cpu.end(), 0.0) / static_cast<double>(cpu.size())) + "}";
  }
  for (auto& each : all) {
    each.buckets.clear();
    if (each.peers)
      each.peers->leave();
  }
  std::vector<cluster::exchange_host> hosts;
  for (const auto rate : plan.links)
    hosts.push_back({.link_rate = rate, .works = hosts.size() < plan.world - plan.extra});
  const auto ideal = cluster::plan_servers(hosts);
  line += ", \"promised\": " + std::to_string(ideal.ring_seconds_per_byte / ideal.seconds_per_byte);
  line += ", \"mbit\": [";
  for (std::uint32_t rank = 0; rank < plan.world; ++rank)
    line += (rank == 0 ? "" : ", ") + std::to_string(measured.link_rates[rank] * 8e-6);
  line += "], \"shares\": [";
  for (std::uint32_t rank = 0; rank < plan.world; ++rank)
    line += (rank == 0 ? "" : ", ") + std::to_string(measured.servers.shares[rank]);
  if (plan.rank == 0)
    std::printf("%s]}\n", line.c_str());
}

} // namespace

} // namespace dynamix::benchmarks

int main(int argc, char** argv) {
  dynamix::benchmarks::servers_plan plan;
  CLI::App app("One rank of a comparison of the ring with servers");
  app.add_option("--rank", plan.rank);
  app.add_option("--world", plan.world)->check(CLI::Range(2, 64));
  app.add_option("--extra", plan.extra, "ranks that only serve")->check(CLI::Range(0, 62));
  app.add_option("--address", plan.address, "that this rank listens on");
  app.add_option("--meeting", plan.meeting, "directory in which the ranks meet");
  app.add_option("--mib", plan.mib, "of gradients")->check(CLI::Range(1, 4096));
  app.add_option("--bucket-kib", plan.bucket_kib)->check(CLI::Range(16, 262144));
  app.add_option("--rounds", plan.rounds)->check(CLI::Range(1, 1000));
  app.add_option("--steps", plan.steps, "of each rival in a round")->check(CLI::Range(1, 1000));
  app.add_option("--links", plan.links, "of all ranks, in relation to each other")
      ->required()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    dynamix::benchmarks::compare(plan);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "exchange_servers: %s\n", error.what());
    return 1;
  }
  return 0;
}
