#include "policy/balancer.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace dynamix::policy {
namespace {

/// Four equal workers of 1 ms per sample and 10 ms per step, whose steps last 5 ms longer than they compute.
class equal_workers {
public:
  explicit equal_workers(std::uint32_t batch) : batches_(4, batch) {}

  /// Runs so many steps; nobody moves anything.
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      one_.measure(batches_[0], seconds());
      std::vector<balanced_worker> told(
          4, {.pace = one_.estimate(batches_[0]), .batch = batches_[0], .lowest = 8, .highest = 1000});
      one_.follow(balance(total(), told));
      one_.end_step(seconds() + 5e-3);
    }
  }
  void take(std::uint32_t batch) { batches_.assign(4, batch); }
  std::uint64_t total() const { return std::accumulate(batches_.begin(), batches_.end(), std::uint64_t{0}); }
  std::uint64_t propose(double noise_scale, std::uint64_t least = 0) const { return one_.propose(noise_scale, least); }
  balancer& one() { return one_; }

private:
  double seconds() const { return 1e-2 + 1e-3 * batches_[0]; }

  std::vector<std::uint32_t> batches_;
  balancer one_;
};

TEST(Balancer, ProposesMoreWhereSamplesAreWorthMore) {
  equal_workers all(64);
  all.run(20);
  all.take(80); // so that the curve has a slope
  all.run(20);
  EXPECT_GT(all.propose(100'000), all.total());
  EXPECT_LT(all.propose(10), all.total());
  EXPECT_NE(all.propose(10), 0U);
}

TEST(Balancer, ProposesNothingBeforeItKnowsTheNoiseOrThePaces) {
  equal_workers all(64);
  EXPECT_EQ(all.propose(100), 0U);
  all.run(20);
  EXPECT_EQ(all.propose(0), 0U);
  EXPECT_EQ(all.propose(-1), 0U);
}

TEST(Balancer, ProposesNoLessThanTheLearningRateIsMeantFor) {
  equal_workers all(64);
  all.run(20);
  EXPECT_EQ(all.propose(1, 256), 0U) << "it is at the least already";
  EXPECT_GE(all.propose(1, 512), 300U) << "it moves there in steps";
}

TEST(Balancer, TellsWhatAWindowHasMovedFromWhatTheWindowBeforeEndedWith) {
  equal_workers all(64);
  all.run(10);
  EXPECT_EQ(all.one().take_statistics(64).moves, 0U);
  all.one().count(64, false);
  all.one().count(50, true);
  all.one().count(50, false);
  const auto told = all.one().take_statistics(50);
  EXPECT_EQ(told.moves, 1U);
  EXPECT_EQ(told.moved_samples, -28);
  EXPECT_EQ(told.changes, 0U);
  EXPECT_EQ(all.one().take_statistics(50).moved_samples, 0);
}

TEST(Balancer, TellsThatItsSpeedHasChanged) {
  balancer one;
  for (int i = 0; i < 20; ++i)
    one.measure(64, 0.064 * (i % 2 == 0 ? 1.01 : 0.99));
  one.take_statistics(64);
  for (int i = 0; i < 10; ++i)
    one.measure(64, 0.256 * (i % 2 == 0 ? 1.01 : 0.99));
  const auto told = one.take_statistics(64);
  EXPECT_GE(told.changes, 1U);
  EXPECT_NEAR(told.newest_change, 4, 0.2);
  EXPECT_NEAR(told.pace_change, 4, 0.2);
}

} // namespace
} // namespace dynamix::policy
