// Voters that are killed, as processes on loopback. DYNAMIX_LEADER_KILLS sets how often; 15 unless told.

#include "tests/unit/replication/replica_cluster.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace dynamix::replication {
namespace {

using clock = std::chrono::steady_clock;

std::size_t kills_wanted() {
  const auto* text = std::getenv("DYNAMIX_LEADER_KILLS");
  return text == nullptr ? 15 : std::strtoull(text, nullptr, 10);
}

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// Decides windows all the while. Every second leader dies with a proposal under way.
std::vector<double> kill_leaders(replica_cluster& cluster, std::size_t kills, std::mt19937& random) {
  std::vector<double> gaps_ms;
  for (std::size_t kill = 0; kill < kills && !testing::Test::HasFailure(); ++kill) {
    for (auto count = 1 + random() % 20; count > 0; --count)
      cluster.decide();
    auto victim = cluster.wait_for_leader();
    auto dead_since = clock::now();
    const auto strike = [&](std::size_t leader) {
      victim = leader;
      if (random() % 2 == 0) // sometimes it has gone to the disk or to a follower
        cluster.pump(1);
      cluster.kill(victim);
      dead_since = clock::now();
    };
    if (kill % 2 == 0)
      strike(victim);
    cluster.decide(kill % 2 == 0 ? std::function<void(std::size_t)>() : strike);
    gaps_ms.push_back(std::chrono::duration<double, std::milli>(clock::now() - dead_since).count());
    cluster.start(victim);
    EXPECT_TRUE(cluster.wait_for_calm());
  }
  return gaps_ms;
}

TEST(ReplicaKill, LosesAndDoublesNothingWhenLeadersAreKilled) {
  const auto kills = kills_wanted();
  std::mt19937 random(1);
  replica_cluster cluster(3, 500);
  cluster.start_all();
  ASSERT_TRUE(cluster.wait_for_calm());
  cluster.begin();
  const auto gaps_ms = kill_leaders(cluster, kills, random);
  EXPECT_EQ(cluster.check_all_equal(), "");
  std::printf("leader kills: %zu, windows: %llu, repeated proposals: %llu, next decision p50 %.0f ms, p99 %.0f ms\n",
              gaps_ms.size(), static_cast<unsigned long long>(cluster.windows()),
              static_cast<unsigned long long>(cluster.repeats()), percentile(gaps_ms, 0.5), percentile(gaps_ms, 0.99));
}

} // namespace
} // namespace dynamix::replication
