#include "client/cpu_quota.hpp"
#include "policy/balance.hpp"
#include "tests/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <limits>
#include <string>
#include <vector>

namespace dynamix::client {
namespace {

constexpr quota_use third{.cores = 1. / 3, .cpu_seconds = 5, .stopped_seconds = 7};

quota_use after(double cpu_seconds, double stopped_seconds) {
  return {.cores = third.cores,
          .cpu_seconds = third.cpu_seconds + cpu_seconds,
          .stopped_seconds = third.stopped_seconds + stopped_seconds};
}

TEST(PacedSeconds, AreWhatTheQuotaAllowsHoweverFastAStepWas) {
  EXPECT_NEAR(paced_seconds(0.010, third, after(0.012, 0)), 0.036, 1e-12) << "in the part of a period that is its own";
  EXPECT_NEAR(paced_seconds(0.077, third, after(0.012, 0.065)), 0.036, 1e-12) << "behind a stop";
  EXPECT_NEAR(paced_seconds(0.077, third, after(0.012, 0.26)), 0.036, 1e-12) << "of four CPUs";
}

TEST(PacedSeconds, CountWhatIsNeitherCpuTimeNorAStop) {
  EXPECT_NEAR(paced_seconds(0.050, third, after(0.012, 0)), 0.050, 1e-12);
  EXPECT_NEAR(paced_seconds(0.350, third, after(0.012, 0.04)), 0.310, 1e-12) << "a slow device, or waiting for a disk";
}

TEST(PacedSeconds, AreTheClocksWhereNothingIsKnownOfAQuota) {
  EXPECT_EQ(paced_seconds(0.01, {}, {.cores = 0, .cpu_seconds = 1}), 0.01);
  EXPECT_EQ(paced_seconds(0.01, third, {.cores = 2, .cpu_seconds = 9, .stopped_seconds = 9}), 0.01) << "another limit";
  EXPECT_EQ(paced_seconds(0.01, third, after(0, 1)), 0.01);
}

TEST(PacedSeconds, StayUnknown) {
  EXPECT_TRUE(std::isnan(paced_seconds(std::numeric_limits<double>::quiet_NaN(), third, after(0.012, 0.1))));
  EXPECT_EQ(paced_seconds(-1, third, after(0.012, 0)), -1);
}

/// A process in a group of its own, in files as the kernel has them.
class CpuQuota : public testing::Test {
protected:
  CpuQuota() {
    root_.write("proc/cgroup", "0::/job\n");
    root_.write("proc/mountinfo", fmt::format("30 1 0:26 / {} rw - cgroup2 cgroup2 rw\n", root_.file("groups")));
    limit("25000 100000");
  }
  void limit(const std::string& text) const { root_.write("groups/job/cpu.max", text + "\n"); }
  void use(int microseconds, int stopped) const {
    root_.write("groups/job/cpu.stat",
                fmt::format("usage_usec {}\nnr_throttled 9\nthrottled_usec {}\n", microseconds, stopped));
  }

  const temporary_directory root_;
  cpu_quota quota_{root_.file("proc")};
};

TEST_F(CpuQuota, IsReadOfTheGroup) {
  use(1'000'000, 300);
  EXPECT_EQ(quota_.step_seconds(0.01, 1), 0.01) << "nothing to compare with";
  use(1'010'000, 300);
  EXPECT_NEAR(quota_.step_seconds(0.01, 1.1), 0.04, 1e-9);
  use(1'020'000, 75'300);
  EXPECT_NEAR(quota_.step_seconds(0.085, 1.2), 0.04, 1e-9);
}

TEST_F(CpuQuota, CountsNothingBetweenSteps) {
  use(1'000'000, 300);
  quota_.step_seconds(0.01, 1);
  use(9'000'000, 300);
  quota_.restart();
  EXPECT_EQ(quota_.step_seconds(0.01, 1.1), 0.01) << "behind an evaluation";
}

TEST_F(CpuQuota, MayChangeWhileTheProcessRuns) {
  use(1'000'000, 300);
  quota_.step_seconds(0.01, 1);
  limit("max 100000");
  use(1'010'000, 300);
  EXPECT_NEAR(quota_.step_seconds(0.01, 2), 0.04, 1e-9) << "not looked for yet";
  use(1'020'000, 300);
  EXPECT_EQ(quota_.step_seconds(0.01, 3.1), 0.01);
}

TEST(CpuQuotaOfNoGroup, IsNone) {
  cpu_quota nowhere("/nonexistent");
  EXPECT_EQ(nowhere.step_seconds(0.01, 1), 0.01);
  EXPECT_EQ(nowhere.step_seconds(0.02, 2), 0.02);
}

/// A host that may use a part of each period's time, and is stopped for the rest once that is used.
struct limited_host {
  double period = 0.1;
  double part = 0.033;
  double at = 0;
  double used = 0;
  double cpu_seconds = 0;
  double stopped_seconds = 0;

  /// Until when it computes what takes so long on a free host.
  double run(double now, double seconds) {
    cpu_seconds += seconds;
    for (;;) {
      const double begin = std::floor(now / period + 1e-9) * period;
      if (begin != at) {
        at = begin;
        used = 0;
      }
      const double most = std::min(part - used, begin + period - now);
      if (seconds <= most) {
        used += seconds;
        return now + seconds;
      }
      seconds -= std::max(most, 0.0);
      stopped_seconds += begin + period - now - std::max(most, 0.0);
      now = begin + period;
    }
  }
};

/// Samples a second of two workers that share 128 samples, one of them limited: `share` of its samples at first, and
/// from then on as they are balanced, or so throughout.
double speed(std::uint32_t share, bool balanced, bool knows_quota) {
  limited_host host;
  std::vector<policy::pace_tracker> paces(2);
  std::vector<std::uint32_t> shares{share, 128 - share};
  const auto needed = [](std::uint32_t batch) { return 0.002 + 1.1e-4 * batch; };
  double now = 0;
  double begin = 0;
  constexpr int steps = 400;
  for (int step = 0; step < steps; ++step) {
    if (step == steps / 4)
      begin = now;
    const quota_use before{.cores = 0.33, .cpu_seconds = host.cpu_seconds, .stopped_seconds = host.stopped_seconds};
    const double computed = host.run(now, needed(shares[0])) - now;
    const double other = needed(shares[1]);
    const quota_use after{.cores = 0.33, .cpu_seconds = host.cpu_seconds, .stopped_seconds = host.stopped_seconds};
    paces[0].measure(shares[0], knows_quota ? paced_seconds(computed, before, after) : computed);
    paces[1].measure(shares[1], other);
    now += std::max(computed, other);
    if (balanced) {
      std::vector<policy::balanced_worker> told;
      for (std::size_t i = 0; i < 2; ++i)
        told.push_back({.pace = paces[i].estimate(shares[i]), .batch = shares[i], .lowest = 1, .highest = 128});
      shares = policy::balance(128, told).batches;
    }
  }
  return 128 * (steps - steps / 4) / (now - begin);
}

TEST(PacedSeconds, LetBalanceFindTheBestShareOfAStoppedHost) {
  double best = 0;
  for (std::uint32_t share = 4; share <= 64; share += 4)
    best = std::max(best, speed(share, false, false));
  EXPECT_GE(speed(64, true, true), 0.95 * best);
  EXPECT_LE(speed(64, true, false), 0.8 * best) << "by the clock alone the host looks as fast as the other";
}

} // namespace
} // namespace dynamix::client
