#include "ledger/equal_batches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::ledger {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct host {
  const char* name;
  std::uint32_t batch;
  double fixed_seconds;
  double sample_seconds;
};

/// A window of hosts whose steps take fixed_seconds + batch * sample_seconds, the slowest one's and 5 ms in all.
ledger::window window_of(const std::vector<host>& hosts, double noise_scale) {
  ledger::window made;
  double slowest = 0;
  for (const auto& each : hosts)
    slowest = std::max(slowest, each.fixed_seconds + each.batch * each.sample_seconds);
  for (const auto& each : hosts) {
    ledger::worker worker;
    worker.report.host = each.name;
    worker.report.batch = worker.decided_batch = each.batch;
    worker.report.training.compute_seconds = each.fixed_seconds + each.batch * each.sample_seconds;
    worker.report.training.iteration_seconds = slowest + 0.005;
    worker.report.training.gradient_valid = noise_scale >= 0;
    worker.report.training.noise_scale = noise_scale;
    made.workers.push_back(worker);
  }
  return made;
}

batch_gain gain_of(const std::string& policy, const std::vector<std::vector<host>>& windows, double noise_scale = -1) {
  equal_batches equal;
  ledger::start start;
  start.policy = policy;
  equal.begin(start);
  for (const auto& each : windows)
    equal.add(window_of(each, noise_scale));
  return equal.newest();
}

const std::vector<host> equally = {{"ada", 50, 0.002, 0.0001}, {"dot", 50, 0.008, 0.0004}};
const std::vector<host> unequally = {{"ada", 90, 0.002, 0.0001}, {"dot", 10, 0.008, 0.0004}};

TEST(EqualBatches, AreComparedWithWhatRunsOnTheSameHosts) {
  const auto found = gain_of("ppo", {equally, unequally}, 120);
  EXPECT_NEAR(found.gain, (0.028 + 0.005) / (0.012 + 0.005), 0.01);
  EXPECT_NEAR(found.times_slower, 4, 0.01);
  EXPECT_EQ(headline(found), "1.9 times the samples per second of equal batches (estimated)");
  EXPECT_EQ(because(found),
            "dot computes 4.0 times slower than ada, and gets 10 of 100 samples; the global batch is 100 "
            "because the gradient noise scale is 120");
}

TEST(EqualBatches, ClaimNothingWhereBatchesAreEqual) {
  const auto found = gain_of("static", {equally}, 120);
  EXPECT_EQ(headline(found), "About as many samples per second as with equal batches (estimated)");
  EXPECT_EQ(because(found), "dot computes 4.0 times slower than ada, and gets 50 of 100 samples")
      << "static follows no noise";
}

TEST(EqualBatches, SayThatHostsAreEqual) {
  const std::vector<host> same = {{"ada", 50, 0.002, 0.0001}, {"ben", 50, 0.002, 0.0001}};
  EXPECT_THAT(
      because(gain_of("goodput", {same}, 2000)),
      HasSubstr(
          "all workers compute at about the same speed; the global batch is 100, and the gradient noise scale 2,000"));
}

TEST(EqualBatches, AreNotEstimatedForOneWorkerOrWithoutMeasurements) {
  EXPECT_EQ(headline(gain_of("ppo", {{{"ada", 50, 0.002, 0.0001}}})), "");
  EXPECT_EQ(headline(gain_of("ppo", {})), "");
  auto stale = window_of(equally, -1);
  stale.workers[1].stale = true;
  equal_batches equal;
  equal.add(stale);
  EXPECT_EQ(because(equal.newest()), "") << "dot has never been measured";
}

} // namespace
} // namespace dynamix::ledger
