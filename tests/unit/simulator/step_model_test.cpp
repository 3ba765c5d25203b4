#include "simulator/step_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dynamix::simulator {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

std::vector<double> finish(const std::vector<double>& work, std::uint32_t cores, std::vector<double> ready = {}) {
  ready.resize(work.size());
  std::vector<double> finished(work.size());
  share_cores(ready, work, cores, finished);
  return finished;
}

TEST(ShareCores, LetsEachJobAloneWhereThereAreCoresEnough) {
  EXPECT_THAT(finish({3, 1, 2}, 0), ElementsAre(3, 1, 2));
  EXPECT_THAT(finish({3, 1, 2}, 3), ElementsAre(3, 1, 2));
}

TEST(ShareCores, SharesOneCoreEvenly) {
  // Both at half speed until the short one is done after 2 s, then the other's last second.
  EXPECT_THAT(finish({2, 1}, 1), ElementsAre(DoubleEq(3), DoubleEq(2)));
}

TEST(ShareCores, GivesNobodyMoreThanACore) {
  // Three share two cores: at 2/3 until the first is done at 1.5 s, then a core each.
  EXPECT_THAT(finish({1, 2, 5}, 2), ElementsAre(DoubleEq(1.5), DoubleEq(2.5), DoubleEq(5.5)));
}

TEST(ShareCores, LetsWhoComesLateHaveItsShareFromThenOn) {
  // The first is alone for 2 s, both share until its last second is done at 4 s, the second's other 2 s follow.
  EXPECT_THAT(finish({3, 3}, 1, {0, 2}), ElementsAre(DoubleEq(4), DoubleEq(6)));
  EXPECT_THAT(finish({1, 1}, 1, {5, 0}), ElementsAre(DoubleEq(6), DoubleEq(1))); // idle from 1 s to 5 s
  EXPECT_THAT(finish({1, 2}, 0, {5, 1}), ElementsAre(6, 3));
}

TEST(SharedCores, LetTheOthersComputeWhileASlowOneWaits) {
  shared_cores sharing(1, 2);
  const std::vector<double> work = {1, 2};
  const std::vector<double> slowdown = {4, 1};
  std::vector<double> computing(2);
  const auto step = [&] { return sharing.step_seconds(work, slowdown, 0.5, 1, computing); };
  // They share: the slow one has computed after 2 s and waits until 8 s, the other has after 3 s; then the exchange.
  EXPECT_DOUBLE_EQ(step(), 3.5);
  EXPECT_THAT(computing, ElementsAre(DoubleEq(2), DoubleEq(3)));
  // From there the slow one begins after 4.5 s, and both have the core for themselves; it waits until 8.5 s.
  EXPECT_DOUBLE_EQ(step(), 6);
  EXPECT_THAT(computing, ElementsAre(DoubleEq(1), DoubleEq(2)));
  // It begins after 2.5 s. From then on a step takes as long as the slow one does: the exchange is hidden.
  EXPECT_DOUBLE_EQ(step(), 4);
  EXPECT_DOUBLE_EQ(step(), 4);
}

network four_workers(cluster::topology_kind topology) {
  return {.topology = topology,
          .workers = 4,
          .gradient_bytes = 8e6,
          .slowest_link = 1e9,
          .server_link = 2e9,
          .latency_seconds = 1e-4};
}

TEST(Exchange, OfARingTakes2NMinus1MessagesOverTheSlowestLink) {
  const auto now = four_workers(cluster::topology_kind::ring);
  EXPECT_DOUBLE_EQ(sent_bytes(now), 12e6);
  EXPECT_DOUBLE_EQ(exchange_seconds(now), 0.012 + 6e-4);
}

TEST(Exchange, WithAParameterServerWaitsForItsLinkOrTheSlowestWorkerS) {
  auto now = four_workers(cluster::topology_kind::parameter_server);
  EXPECT_DOUBLE_EQ(sent_bytes(now), 8e6);
  EXPECT_DOUBLE_EQ(exchange_seconds(now), 2 * (4 * 8e6 / 2e9) + 2e-4);
  now.slowest_link = 1e8;
  EXPECT_DOUBLE_EQ(exchange_seconds(now), 2 * (8e6 / 1e8) + 2e-4);
}

TEST(Exchange, SendsLostSegmentsAgain) {
  auto now = four_workers(cluster::topology_kind::ring);
  now.loss_rate = 0.5;
  EXPECT_DOUBLE_EQ(exchange_seconds(now), 2 * (0.012 + 6e-4));
}

TEST(Exchange, OfOneWorkerIsNone) {
  auto now = four_workers(cluster::topology_kind::ring);
  now.workers = 1;
  EXPECT_EQ(exchange_seconds(now), 0);
  EXPECT_EQ(sent_bytes(now), 0);
}

TEST(Step, OverlapsComputingAndExchange) {
  EXPECT_DOUBLE_EQ(step_seconds(3, 4, 1), 7);
  EXPECT_DOUBLE_EQ(step_seconds(3, 4, 2), 5);
  EXPECT_NEAR(step_seconds(3, 4, 10), 4.02197, 1e-5); // (3^10 + 4^10)^(1/10)
  EXPECT_DOUBLE_EQ(step_seconds(3, 0, 5), 3);
}

} // namespace
} // namespace dynamix::simulator
