// Many seeds of replication/simulation. DYNAMIX_SEEDS sets how many, DYNAMIX_SEED the first: a failure names its own.

#include "replication/words.hpp"
#include "tests/unit/replication/simulation.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace dynamix::replication {
namespace {

std::uint64_t setting(const char* variable, std::uint64_t otherwise) {
  const auto* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

TEST(Simulation, LosesAndDoublesNothingUnderFaultsAndGoesOnWhenTheyEnd) {
  const auto seeds = setting("DYNAMIX_SEEDS", 300);
  const auto first = setting("DYNAMIX_SEED", 1);
  std::uint64_t acknowledged = 0;
  std::uint64_t leaders = 0;
  std::uint64_t trace = 0;
  const auto start = std::chrono::steady_clock::now();
  for (auto seed = first; seed < first + seeds; ++seed) {
    simulation one(seed);
    one.run_with_faults(20'000);
    const bool healed = one.heal();
    ASSERT_EQ(one.violation(), "") << "DYNAMIX_SEED=" << seed;
    ASSERT_TRUE(healed) << "DYNAMIX_SEED=" << seed;
    acknowledged += one.acknowledged();
    leaders += one.leaders();
    trace = mix(trace, one.trace());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("seeds: %llu, leaders: %llu, windows: %llu, trace: %016llx, %.0f seeds/s\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(leaders),
              static_cast<unsigned long long>(acknowledged), static_cast<unsigned long long>(trace),
              static_cast<double>(seeds) / took.count());
  EXPECT_GT(leaders, seeds); // leaders were lost on the way
}

TEST(Simulation, IsTheSameForTheSameSeed) {
  std::uint64_t traces[2];
  for (auto& trace : traces) {
    simulation one(42);
    one.run_with_faults(20'000);
    EXPECT_TRUE(one.heal());
    trace = one.trace();
  }
  EXPECT_EQ(traces[0], traces[1]);
  simulation other(43);
  other.run_with_faults(20'000);
  EXPECT_NE(other.trace(), traces[0]);
}

} // namespace
} // namespace dynamix::replication
