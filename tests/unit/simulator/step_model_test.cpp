#include "simulator/step_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace dynamix::simulator {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

network four_workers(std::vector<double> rates = {1e9, 1e9, 1e9, 1e9}) {
  network now{.hosts = {}, .shares = {}, .workers = 4, .gradient_bytes = 8e6, .latency_seconds = 1e-4};
  for (const double rate : rates)
    now.hosts.push_back({.link_rate = rate, .works = now.hosts.size() < 4});
  return now;
}

TEST(Exchange, OfARingTakes2NMinus1MessagesOverTheSlowestLink) {
  auto now = four_workers();
  EXPECT_DOUBLE_EQ(sent_bytes(now), 12e6);
  EXPECT_DOUBLE_EQ(exchange_seconds(now), 0.012 + 6e-4);
  now.hosts[2].link_rate = 5e8;
  EXPECT_DOUBLE_EQ(exchange_seconds(now), 0.024 + 6e-4);
}

TEST(Exchange, ThroughOneServerWaitsForItsLinkOrTheSlowestWorkerS) {
  auto now = four_workers({1e9, 1e9, 1e9, 1e9, 2e9});
  for (std::size_t worker = 0; worker < 4; ++worker)
    now.hosts[worker].serves = false;
  now.shares = planned_shares(now.hosts, cluster::exchange_kind::parameter_server);
  EXPECT_THAT(now.shares, ElementsAre(0, 0, 0, 0, 1));
  EXPECT_DOUBLE_EQ(sent_bytes(now), 8e6);
  EXPECT_DOUBLE_EQ(exchange_seconds(now), 4 * 8e6 / 2e9 + 2e-4);
  now.hosts[1].link_rate = 1e8;
  EXPECT_DOUBLE_EQ(exchange_seconds(now), 8e6 / 1e8 + 2e-4);
}

/// Where a link is at half, where others only serve, and where half of all are at half.
TEST(Exchange, ThroughServersTakesWhatTheFormulaPromises) {
  const auto ratio = [](network now) {
    now.latency_seconds = 0;
    const double ring = exchange_seconds(now);
    now.shares = planned_shares(now.hosts, cluster::exchange_kind::parameter_server);
    return ring / exchange_seconds(now);
  };
  EXPECT_NEAR(ratio(four_workers()), 1, 1e-9);
  EXPECT_NEAR(ratio(four_workers({1e9, 1e9, 1e9, 5e8})), 1.5, 1e-9);
  EXPECT_NEAR(ratio(four_workers({1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9})), 1.5, 1e-9);
  auto eight = four_workers({1e9, 1e9, 1e9, 1e9, 5e8, 5e8, 5e8, 5e8});
  eight.workers = 8;
  for (auto& host : eight.hosts)
    host.works = true;
  EXPECT_NEAR(ratio(eight), 1.5, 1e-9);
}

TEST(Exchange, GoesThroughServersByItselfOnlyWhereTheyPay) {
  using enum cluster::exchange_kind;
  EXPECT_THAT(planned_shares(four_workers().hosts, automatic), IsEmpty());
  EXPECT_THAT(planned_shares(four_workers({1e9, 1e9, 1e9, 5e8}).hosts, automatic), SizeIs(4));
  EXPECT_THAT(planned_shares(four_workers({1e9, 1e9, 1e9, 5e8}).hosts, ring), IsEmpty());
  EXPECT_THAT(planned_shares(std::vector<cluster::exchange_host>{{.link_rate = 1e9}}, parameter_server), IsEmpty());
}

TEST(Exchange, KeepsItsSharesWhenALinkCongests) {
  auto now = four_workers();
  now.latency_seconds = 0;
  now.shares = planned_shares(now.hosts, cluster::exchange_kind::parameter_server);
  now.hosts[0].link_rate /= 3;
  EXPECT_DOUBLE_EQ(exchange_seconds(now), 3 * 0.012) << "which 1 + 2/4 of the gradients pass";
}

TEST(Exchange, LeavesOutRowsThatNobodyTouched) {
  using exchange::form;
  auto now = four_workers();
  now.gradient_bytes = 0;
  now.latency_seconds = 0;
  now.sparse = {.items = 1'000'000, .item_floats = 32, .longest = 4'000, .together = 12'000};
  const double dense = exchange_seconds(now);
  EXPECT_DOUBLE_EQ(dense, 1.5 * 128e6 / 1e9);
  std::vector<double> seconds;
  for (const auto how : {form::union_of_items, form::gather, form::lhc, form::automatic}) {
    now.compression = how;
    seconds.push_back(exchange_seconds(now));
    EXPECT_LT(seconds.back(), dense / 5);
  }
  EXPECT_DOUBLE_EQ(seconds[1], 3 * 4'000 * 132 / 1e9);
  EXPECT_EQ(seconds[3], std::ranges::min(seconds));
  EXPECT_EQ(route_of(now), (exchange::route{form::gather, false}));
  now.hosts[3].link_rate = 5e8;
  now.compression = form::union_of_items;
  const double in_ring = exchange_seconds(now);
  now.shares = planned_shares(now.hosts, cluster::exchange_kind::parameter_server);
  EXPECT_NEAR(in_ring / exchange_seconds(now), 1.5, 1e-9);
  EXPECT_TRUE(route_of(now).by_servers);
}

TEST(Exchange, SendsLostSegmentsAgain) {
  auto now = four_workers();
  now.loss_rate = 0.5;
  EXPECT_DOUBLE_EQ(exchange_seconds(now), 2 * (0.012 + 6e-4));
}

TEST(Exchange, OfOneWorkerIsNone) {
  auto now = four_workers({1e9});
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
