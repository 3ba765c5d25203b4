#include "ranks.hpp"
#include "trainer/exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::trainer {
namespace {

TEST(exchange, sums_over_all_ranks_with_the_same_bits_everywhere) {
  for (const std::uint32_t world_size : {1U, 2U, 3U}) {
    std::vector<torch::Tensor> sums(world_size);
    run_ranks(world_size, [&](std::uint32_t rank, exchange& peers) {
      sums[rank] = torch::arange(1000, torch::kFloat32).div(static_cast<double>(3 + rank));
      peers.all_reduce_sum(sums[rank])->wait();
    });
    auto expected = torch::zeros({1000});
    for (std::uint32_t rank = 0; rank < world_size; ++rank)
      expected += torch::arange(1000, torch::kFloat32).div(static_cast<double>(3 + rank));
    for (const auto& sum : sums) {
      EXPECT_TRUE(torch::allclose(sum, expected));
      EXPECT_TRUE(torch::equal(sum, sums[0]));
    }
  }
}

TEST(exchange, gathers_one_row_of_each_rank) {
  run_ranks(3, [](std::uint32_t rank, exchange& peers) {
    auto rows = torch::empty({3, 2}, torch::kInt64);
    const auto number = static_cast<std::int64_t>(rank);
    peers.all_gather(torch::tensor({number, 10 * number}, torch::kInt64), rows)->wait();
    EXPECT_TRUE(torch::equal(rows, torch::tensor({{0, 0}, {1, 10}, {2, 20}}, torch::kInt64)));
  });
}

TEST(exchange, broadcasts_bytes_whose_length_only_rank_0_knows) {
  run_ranks(2, [](std::uint32_t rank, exchange& peers) {
    std::vector<std::uint8_t> bytes;
    if (rank == 0)
      bytes.assign(100'000, 7);
    broadcast_bytes(peers, bytes);
    EXPECT_EQ(bytes, std::vector<std::uint8_t>(100'000, 7));
    if (rank == 0)
      bytes.clear();
    broadcast_bytes(peers, bytes);
    EXPECT_TRUE(bytes.empty());
  });
}

TEST(exchange, names_the_ranks_that_did_not_come) {
  memory_store meeting;
  steady_clock time;
  const membership place{.rank = 1, .world_size = 4, .store_prefix = "g1", .join_timeout_ms = 50};
  meeting.set("g1/present/3", {1});
  try {
    join_exchange(place, meeting, time);
    FAIL() << "joined a group whose other workers are not there";
  } catch (const exchange_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("have not come: 0, 2"));
  }
}

TEST(exchange, throws_its_own_error_when_a_peer_has_gone) {
  memory_store meeting;
  steady_clock time;
  std::jthread leaving(
      [&] { auto peers = join_exchange({.rank = 1, .world_size = 2, .store_prefix = "g1"}, meeting, time); });
  auto peers = join_exchange({.rank = 0, .world_size = 2, .store_prefix = "g1"}, meeting, time);
  leaving.join();
  EXPECT_THROW(peers->all_reduce_sum(torch::ones({4}))->wait(), exchange_error);
}

} // namespace
} // namespace dynamix::trainer
