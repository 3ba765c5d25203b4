#include "exchange/either_group.hpp"
#include "exchange/form_choice.hpp"
#include "exchange/server_group.hpp"
#include "tests/unit/exchange/ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

/// Plain buckets that go in a ring or through servers, by what is measured.

namespace dynamix::exchange {
namespace {

/// Whole numbers, which have one sum in any order.
void expect_sums_of_ranks(group& peers, std::uint32_t rank, std::vector<std::unique_ptr<bucket>>& all) {
  const auto members = static_cast<float>(peers.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::ranges::fill(std::get<std::span<float>>(all[i]->gradients()), static_cast<float>(rank + i));
    all[i]->sums()[0] = 0.1 * rank;
    all[i]->start();
  }
  const float ranks = members * (members - 1) / 2;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->wait();
    const auto values = std::get<std::span<float>>(all[i]->gradients());
    EXPECT_EQ(std::ranges::count(values, ranks + members * static_cast<float>(i)), std::ssize(values));
    EXPECT_NEAR(all[i]->sums()[0], 0.1 * ranks, 1e-12);
  }
}

TEST(EitherGroup, TriesTheOtherWayAndTellsAllMembersTheSame) {
  for (const bool by_servers : {false, true}) {
    std::vector<std::vector<std::string>> told(3);
    run_ranks(
        3,
        [&](std::uint32_t rank, group& peers) {
          ASSERT_TRUE(peers.ways());
          std::vector<std::unique_ptr<bucket>> all;
          for (const std::size_t count : {100U, 40'000U, 100'000U}) // the first one is not measured
            all.push_back(peers.make_bucket(element::float32, count, 1));
          for (int step = 0; step < 5; ++step)
            expect_sums_of_ranks(peers, rank, all);
          all.erase(all.begin() + 1); // by which steps were counted: the next one leads
          for (int step = 0; step < 1000 && told[rank].empty(); ++step)
            expect_sums_of_ranks(peers, rank, all);
          for (int step = 0; step < 20; ++step)
            expect_sums_of_ranks(peers, rank, all);
        },
        [&](const place& own, store& meeting, const interruption& stop) {
          auto ring = join_ring(own, meeting, stop);
          auto& members = *ring;
          summing_plan plan{.by_servers = by_servers};
          plan.servers.seconds_per_byte = 0.8e-9;
          plan.servers.ring_seconds_per_byte = 1e-9;
          return choose_ways(sum_by_servers(std::move(ring), {0.5, 0.3, 0.2}, stop), members, plan,
                             [&, rank = own.rank](const std::string& what) { told[rank].push_back(what); });
        });
    ASSERT_FALSE(told[0].empty()) << "of the first try";
    EXPECT_THAT(told[0][0], testing::HasSubstr(by_servers ? "by the ring from now on" : "by servers from now on"));
    EXPECT_EQ(told[1], told[0]);
    EXPECT_EQ(told[2], told[0]);
  }
}

TEST(EitherGroup, EndsForAllWhenAMemberIsGoneBetweenTwoLooks) {
  const auto body = [](std::uint32_t rank, group& peers) {
    std::vector<std::unique_ptr<bucket>> all;
    all.push_back(peers.make_bucket(element::float32, 40'000, 1));
    for (int step = 0; step < 12; ++step) // a look is over, and the next one under way
      expect_sums_of_ranks(peers, rank, all);
    if (rank == 2)
      throw std::runtime_error("gone");
    EXPECT_THROW(expect_sums_of_ranks(peers, rank, all), error);
  };
  const auto joining = [](const place& own, store& meeting, const interruption& stop) {
    auto ring = join_ring(own, meeting, stop);
    auto& members = *ring;
    summing_plan plan;
    plan.servers.seconds_per_byte = 0.8e-9;
    plan.servers.ring_seconds_per_byte = 1e-9;
    return choose_ways(sum_by_servers(std::move(ring), {0.5, 0.3, 0.2}, stop), members, plan, {});
  };
  EXPECT_THROW(run_ranks(3, body, joining), std::runtime_error);
}

/// Servers that promise to take 0.8 of the ring's time.
constexpr form_load promising{.members = 3, .items = 100'000, .servers_time = 0.8};

TEST(WayChoice, TriesServersWhereTheyPromiseEnoughAndTheRingWhereItCouldWin) {
  for (const double servers_time : {0.8, 1.0}) {
    auto load = promising;
    load.servers_time = servers_time;
    way_choice choice(false);
    EXPECT_EQ(choice.take(1, 2, load), servers_time < 0.9)
        << "none could be faster by a tenth than 1.05 times a promise";
    way_choice planned(true);
    EXPECT_TRUE(planned.take(1, 2, load)) << "servers may keep 0.6 of what they promise";
  }
}

TEST(WayChoice, KeepsAWayThatHidesTheExchange) {
  way_choice choice(false);
  for (int look = 0; look < 100; ++look)
    EXPECT_FALSE(choice.take(look % 2 == 0 ? 0.049 : 0.001, 1, promising));
  EXPECT_TRUE(choice.take(0.051, 1, promising));
}

TEST(WayChoice, TriesTheOtherWayEverMoreRarelyWhereWaitsChangeAllTheTime) {
  way_choice choice(false);
  int changes = 0;
  for (int look = 0; look < 2000; ++look) // what was measured is out of date each time
    changes += choice.take(look % 4 < 2 ? 0.1 : 0.9, 1, promising) ? 1 : 0;
  EXPECT_GT(changes, 2);
  EXPECT_LE(changes, 22) << "2 + 4 + ... + 1024 looks pass between ten trials, each with a way back";
  way_choice steady(false);
  changes = 0;
  for (int look = 0; look < 2000; ++look)
    changes += steady.take(steady.by_servers() ? 0.5 : 0.4, 1, promising) ? 1 : 0;
  EXPECT_EQ(changes, 2) << "tried once, and back";
  EXPECT_FALSE(steady.by_servers());
}

} // namespace
} // namespace dynamix::exchange
