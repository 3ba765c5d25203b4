#include "ranks.hpp"
#include "trainer/exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

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

TEST(exchange, broadcasts_bytes_whose_length_only_the_root_knows) {
  run_ranks(3, [](std::uint32_t rank, exchange& peers) {
    for (const std::uint32_t root : {0U, 2U}) {
      const std::vector<std::uint8_t> bytes(rank == root ? 100'000 : rank, static_cast<std::uint8_t>(7 + rank));
      const auto sent = broadcast_bytes(peers, root, bytes);
      EXPECT_TRUE(torch::equal(sent, torch::full({100'000}, 7 + static_cast<int>(root), torch::kUInt8)));
      EXPECT_EQ(broadcast_bytes(peers, root, {}).numel(), 0);
    }
  });
}

TEST(exchange, names_the_ranks_that_did_not_come) {
  memory_store meeting;
  steady_clock time;
  const interruption never;
  const membership place{.rank = 4, .members = {1, 4, 5, 7}, .store_prefix = "g1", .join_timeout_ms = 50};
  meeting.set("g1/present/5", {1});
  try {
    join_exchange(place, meeting, time, never);
    FAIL() << "joined a group whose other workers are not there";
  } catch (const exchange_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("have not come: 1, 7"));
  }
}

TEST(exchange, throws_its_own_error_when_a_peer_has_gone) {
  memory_store meeting;
  steady_clock time;
  const interruption never;
  std::jthread leaving([&] {
    join_exchange({.rank = 1, .members = {0, 1}, .store_prefix = "g1"}, meeting, time, never);
  });
  auto peers = join_exchange({.rank = 0, .members = {0, 1}, .store_prefix = "g1"}, meeting, time, never);
  leaving.join();
  EXPECT_THROW(peers->all_reduce_sum(torch::ones({4}))->wait(), exchange_error);
}

/// Raises an interruption a moment after something was begun that would not end.
std::jthread raise_soon(interruption& stop) {
  return std::jthread([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.raise("the generation is over");
  });
}

template <typename Action>
void expect_interrupted(Action&& action) {
  try {
    action();
    FAIL() << "came to an end";
  } catch (const exchange_error& error) {
    EXPECT_STREQ(error.what(), "the generation is over");
  }
}

TEST(exchange, leaves_the_meeting_when_it_is_interrupted) {
  memory_store meeting;
  steady_clock time;
  interruption stop;
  auto raising = raise_soon(stop);
  expect_interrupted([&] { join_exchange({.rank = 0, .members = {0, 1}, .store_prefix = "g1"}, meeting, time, stop); });
}

TEST(exchange, leaves_the_connecting_to_a_peer_that_announced_itself_and_fell_silent) {
  auto meeting = std::make_unique<memory_store>();
  steady_clock time;
  interruption stop;
  meeting->set("g1/present/1", {1});
  auto raising = raise_soon(stop);
  expect_interrupted([&] {
    join_exchange({.rank = 0, .members = {0, 1}, .store_prefix = "g1"}, *meeting, time, stop);
  });
  meeting.reset(); // the thread that was left behind must not touch it
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

/// Two members of which the second takes part in nothing.
struct silent_pair {
  silent_pair() {
    std::jthread other([this] {
      silent = join_exchange({.rank = 1, .members = {0, 1}, .store_prefix = "g1"}, meeting, time, never);
    });
    waiting = join_exchange({.rank = 0, .members = {0, 1}, .store_prefix = "g1"}, meeting, time, stop);
  }
  memory_store meeting;
  steady_clock time;
  const interruption never;
  interruption stop;
  std::unique_ptr<exchange> silent;
  std::unique_ptr<exchange> waiting;
};

TEST(exchange, leaves_a_collective_when_it_is_interrupted) {
  silent_pair pair;
  auto raising = raise_soon(pair.stop);
  expect_interrupted([&] { pair.waiting->all_reduce_sum(torch::ones({1000}))->wait(); });
}

TEST(exchange, leaves_a_goodbye_when_it_is_interrupted) {
  silent_pair pair;
  auto raising = raise_soon(pair.stop);
  pair.waiting->leave();
  EXPECT_TRUE(pair.stop.raised()) << "said goodbye to a peer that did not answer";
}

TEST(exchange, breaks_what_peers_wait_for_when_it_is_given_up) {
  silent_pair pair;
  auto reduction = pair.silent->all_reduce_sum(torch::ones({1000}));
  auto raising = raise_soon(pair.stop);
  expect_interrupted([&] { pair.waiting->broadcast(torch::ones({4}), 1); });
  pair.waiting.reset();
  EXPECT_THROW(reduction->wait(), exchange_error) << "only the collective time-out would have ended it";
}

} // namespace
} // namespace dynamix::trainer
