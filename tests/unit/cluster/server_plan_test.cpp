#include "cluster/server_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

/// Against a table of times worked out by hand, in units of M bytes over a link of rate 1.

namespace dynamix::cluster {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

std::vector<exchange_host> workers(const std::vector<std::pair<int, double>>& groups) {
  std::vector<exchange_host> hosts;
  for (const auto& [count, rate] : groups)
    hosts.insert(hosts.end(), static_cast<std::size_t>(count), {.link_rate = rate});
  return hosts;
}

std::vector<exchange_host> with_servers(std::vector<exchange_host> hosts, int count) {
  hosts.insert(hosts.end(), static_cast<std::size_t>(count), {.link_rate = 1, .works = false});
  return hosts;
}

TEST(ServerPlan, TakesTheTimesOfTheFormula) {
  struct expectation {
    std::vector<exchange_host> hosts;
    double seconds;
    double ring;
  };
  const expectation table[] = {
      {workers({{4, 1}}), 1.5, 1.5},
      {with_servers(workers({{4, 1}}), 2), 1.2, 1.5},
      {with_servers(workers({{4, 1}}), 4), 1, 1.5},
      {with_servers(workers({{8, 1}}), 8), 1, 1.75},
      {workers({{7, 1}, {1, 0.1}}), 10, 17.5},
      {workers({{7, 1}, {1, 0.5}}), 2, 3.5},
      {workers({{4, 1}, {4, 0.5}}), 7.0 / 3, 3.5},
      {with_servers(workers({{4, 1}, {4, 0.5}}), 2), 2, 3.5},
      {workers({{16, 1}, {16, 0.5}}), 31.0 / 12, 3.875},
      {workers({{31, 1}, {1, 0.1}}), 10, 19.375},
      {workers({{3, 1}, {1, 0.5}}), 2, 3},
      {workers({{2, 1}}), 1, 1},
      {workers({{1, 1}}), 0, 0},
  };
  for (const auto& [hosts, seconds, ring] : table) {
    const auto plan = plan_servers(hosts);
    EXPECT_NEAR(plan.seconds_per_byte, seconds, 1e-9) << hosts.size();
    EXPECT_NEAR(plan.ring_seconds_per_byte, ring, 1e-9) << hosts.size();
    EXPECT_NEAR(std::accumulate(plan.shares.begin(), plan.shares.end(), 0.0), 1, 1e-12);
    if (ring > 0) {
      EXPECT_NEAR(seconds_per_byte(hosts, plan.shares), seconds, 1e-9) << hosts.size();
    }
    EXPECT_EQ(pays(plan), ring > 1.1 * seconds) << hosts.size();
  }
}

/// What each host's link carries each way under the plan, in seconds: nobody's takes longer than was predicted.
TEST(ServerPlan, KeepsEveryLinkWithinThePredictedTime) {
  for (const auto& hosts :
       {workers({{4, 1}}), workers({{5, 1}, {3, 0.3}}), with_servers(workers({{3, 2}, {2, 0.7}}), 2),
        with_servers(workers({{2, 1}}), 3), workers({{1, 10}, {3, 1}}), workers({{2, 5}})}) {
    const auto plan = plan_servers(hosts);
    const auto count = static_cast<double>(std::ranges::count_if(hosts, &exchange_host::works));
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const double share = plan.shares[i];
      const double moved = hosts[i].works ? 1 - share + (count - 1) * share : count * share;
      EXPECT_LE(moved / hosts[i].link_rate, plan.seconds_per_byte + 1e-9) << i << " of " << hosts.size();
    }
  }
}

TEST(ServerPlan, GivesASlowLinkNothingAndTheOthersTheRest) {
  const auto plan = plan_servers(workers({{3, 1}, {1, 0.5}}));
  EXPECT_THAT(plan.shares, ElementsAre(DoubleNear(1.0 / 3, 1e-9), DoubleNear(1.0 / 3, 1e-9), DoubleNear(1.0 / 3, 1e-9),
                                       DoubleNear(0, 1e-9)));
  EXPECT_EQ(plan.bound, exchange_bound::worker_link);
  EXPECT_EQ(plan.slowest, 3U);
}

TEST(ServerPlan, SaysWhatBinds) {
  EXPECT_EQ(plan_servers(workers({{4, 1}})).bound, exchange_bound::server_links);
  EXPECT_EQ(plan_servers(workers({{1, 1}})).bound, exchange_bound::none);
  auto slow_cpus = workers({{4, 1}});
  for (auto& each : slow_cpus)
    each.sum_rate = 0.25;
  const auto plan = plan_servers(slow_cpus);
  EXPECT_EQ(plan.bound, exchange_bound::server_sums);
  EXPECT_NEAR(plan.seconds_per_byte, 3, 1e-9) << "each adds three quarters of the bytes at a quarter a second";
}

TEST(ServerPlan, AsksNothingOfWhoDoesNotServe) {
  auto hosts = workers({{4, 1}});
  hosts[1].serves = hosts[2].serves = hosts[3].serves = false;
  const auto plan = plan_servers(hosts);
  EXPECT_EQ(plan.shares, (std::vector<double>{1, 0, 0, 0}));
  EXPECT_NEAR(plan.seconds_per_byte, 3, 1e-9);
}

TEST(ServerPlan, TakesRatesThatDifferALittleForEqual) {
  EXPECT_EQ(even_out(std::vector<double>{100, 110, 50, 90}), (std::vector<double>{100, 100, 50, 100}));
  EXPECT_EQ(even_out(std::vector<double>{1, 2}), (std::vector<double>{1, 2}));
  EXPECT_TRUE(even_out({}).empty());
  EXPECT_EQ(even_out(std::vector<double>{-5, 0, 0, -5, 3}), (std::vector<double>{-5, 0, 0, -5, 3})) << "it ends";
  std::vector<exchange_host> hosts = workers({{3, 100}, {1, 50}});
  hosts[1].link_rate = 110;
  hosts[2].link_rate = 90;
  EXPECT_EQ(plan_measured(hosts).shares, plan_servers(workers({{3, 100}, {1, 50}})).shares);
}

} // namespace
} // namespace dynamix::cluster
