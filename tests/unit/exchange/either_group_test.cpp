#include "exchange/either_group.hpp"
#include "exchange/server_group.hpp"
#include "tests/unit/exchange/ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
        [](std::uint32_t rank, group& peers) {
          ASSERT_TRUE(peers.ways());
          std::vector<std::unique_ptr<bucket>> all;
          for (const std::size_t count : {100U, 40'000U, 100'000U}) // the first one is not measured
            all.push_back(peers.make_bucket(element::float32, count, 1));
          for (int step = 0; step < 20; ++step)
            expect_sums_of_ranks(peers, rank, all);
          all.erase(all.begin() + 1); // by which steps were counted
          for (int step = 0; step < 20; ++step)
            expect_sums_of_ranks(peers, rank, all);
        },
        [&](const place& own, store& meeting, const interruption& stop) {
          auto ring = join_gloo_ring(own, meeting, stop);
          auto& members = *ring;
          summing_plan plan{.by_servers = by_servers};
          plan.servers.seconds_per_byte = 1e-9;
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

} // namespace
} // namespace dynamix::exchange
