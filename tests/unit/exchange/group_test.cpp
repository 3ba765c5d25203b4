#include "exchange/row_bucket.hpp"
#include "tests/unit/exchange/ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <sys/resource.h>

namespace dynamix::exchange {
namespace {

TEST(Group, GathersOneRowOfEachMember) {
  run_ranks(3, [](std::uint32_t rank, group& peers) {
    EXPECT_EQ(peers.position(), rank);
    EXPECT_EQ(peers.size(), 3U);
    const auto number = static_cast<std::int64_t>(rank);
    const std::int64_t row[] = {number, 10 * number, -number};
    const auto first = peers.all_gather(row);
    const auto second = peers.all_gather({row, 1});
    EXPECT_EQ(first->wait(), (std::vector<std::int64_t>{0, 0, 0, 1, 10, -1, 2, 20, -2}));
    EXPECT_EQ(second->wait(), (std::vector<std::int64_t>{0, 1, 2}));
  });
}

TEST(Group, TellsEachMembersNumbersToAllWithTheSumsOfABucket) {
  for (const auto type : {element::float32, element::float64})
    run_ranks(3, [type](std::uint32_t rank, group& peers) {
      const auto sent = make_row_bucket(peers, type, 5, 1, 2);
      const auto least = std::numeric_limits<std::int64_t>::min();
      for (std::int64_t step = 1; step < 3; ++step) {
        std::visit([](auto gradients) { std::ranges::fill(gradients, 1); }, sent->gradients());
        sent->sums()[0] = 2;
        sent->rows()[2 * rank] = least + rank;
        sent->rows()[2 * rank + 1] = -step;
        sent->start();
        sent->wait();
        EXPECT_THAT(sent->rows(), testing::ElementsAre(least, -step, least + 1, -step, least + 2, -step));
        EXPECT_EQ(sent->sums()[0], 6);
        std::visit([](auto gradients) { EXPECT_THAT(gradients, testing::ElementsAre(3, 3, 3, 3, 3)); },
                   sent->gradients());
      }
    });
}

TEST(Group, BroadcastsBytesWhoseNumberOnlyTheRootKnows) {
  run_ranks(3, [](std::uint32_t rank, group& peers) {
    for (const std::uint32_t root : {0U, 2U}) {
      const std::vector<std::uint8_t> bytes(rank == root ? 100'000 : rank, static_cast<std::uint8_t>(7 + rank));
      EXPECT_EQ(peers.broadcast(root, bytes), std::vector<std::uint8_t>(100'000, static_cast<std::uint8_t>(7 + root)));
      EXPECT_EQ(peers.broadcast(root, {}).size(), 0U);
    }
  });
}

TEST(Group, OfOneHasNobodyToWaitFor) {
  run_ranks(1, [](std::uint32_t, group& peers) {
    EXPECT_EQ(peers.size(), 1U);
    const std::int64_t row[] = {5};
    EXPECT_EQ(peers.all_gather(row)->wait(), std::vector<std::int64_t>{5});
    const std::vector<std::uint8_t> bytes{1, 2, 3};
    EXPECT_EQ(peers.broadcast(0, bytes), bytes);
  });
}

TEST(Group, NamesTheRanksThatDidNotCome) {
  memory_store meeting;
  const interruption never;
  const place own{.rank = 4, .members = {1, 4, 5, 7}, .store_prefix = "g1", .join_timeout_ms = 50};
  meeting.set("g1/present/5", {1});
  try {
    join(own, meeting, never);
    FAIL() << "joined a group whose other workers are not there";
  } catch (const error& problem) {
    EXPECT_THAT(problem.what(), testing::HasSubstr("have not come: 1, 7"));
  }
}

TEST(Group, RefusesMoreMembersThanItCanSumExactly) {
  memory_store meeting;
  const interruption never;
  try {
    join({.members = all_ranks(4097), .store_prefix = "g1"}, meeting, never);
    FAIL();
  } catch (const error& problem) {
    EXPECT_THAT(problem.what(), testing::HasSubstr("at most 4096"));
  }
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
  } catch (const error& problem) {
    EXPECT_STREQ(problem.what(), "the generation is over");
  }
}

TEST(Group, LeavesTheMeetingWhenInterrupted) {
  memory_store meeting;
  interruption stop;
  auto raising = raise_soon(stop);
  expect_interrupted([&] { join({.rank = 0, .members = {0, 1}, .store_prefix = "g1"}, meeting, stop); });
}

TEST(Group, LeavesTheConnectingToAPeerThatAnnouncedItselfAndFellSilent) {
  auto meeting = std::make_unique<memory_store>();
  interruption stop;
  meeting->set("g1/present/1", {1});
  auto raising = raise_soon(stop);
  expect_interrupted([&] { join({.rank = 0, .members = {0, 1}, .store_prefix = "g1"}, *meeting, stop); });
  meeting.reset(); // the thread that was left behind must not touch it
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

/// Two members of which the second takes part in nothing.
struct silent_pair {
  silent_pair() {
    std::jthread other([this] { silent = join({.rank = 1, .members = {0, 1}, .store_prefix = "g1"}, meeting, never); });
    waiting = join({.rank = 0, .members = {0, 1}, .store_prefix = "g1"}, meeting, stop);
  }
  memory_store meeting;
  const interruption never;
  interruption stop;
  std::unique_ptr<group> silent;
  std::unique_ptr<group> waiting;
};

TEST(Group, ThrowsItsOwnErrorWhenAPeerHasGone) {
  silent_pair pair;
  pair.silent.reset();
  const auto summed = pair.waiting->make_bucket(element::float32, 4, 1);
  EXPECT_THROW(
      {
        summed->start();
        summed->wait();
      },
      error);
}

/// The most that this process has had, in KiB.
long memory_peak() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

TEST(Group, TakesNoMemoryForBytesThatAreOnlyAnnounced) {
  silent_pair pair;
  const std::int64_t announced = std::int64_t{1} << 30;
  const auto told = pair.silent->all_gather({&announced, 1}); // on the wire what a broadcast begins with
  const std::jthread leaves([&pair] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    pair.silent.reset();
  });
  const auto before = memory_peak();
  EXPECT_THROW(pair.waiting->broadcast(1, {}), error);
  EXPECT_LT(memory_peak() - before, 256 << 10);
}

TEST(Group, LeavesEveryWaitWhenInterrupted) {
  const std::vector<std::pair<const char*, std::function<void(group&)>>> waits = {
      {"sum",
       [](group& peers) {
         const auto summed = peers.make_bucket(element::float32, 1000, 2);
         summed->start();
         summed->wait();
       }},
      {"gather",
       [](group& peers) {
         const std::int64_t row[] = {1};
         peers.all_gather(row)->wait();
       }},
      {"broadcast", [](group& peers) { peers.broadcast(1, {}); }},
  };
  for (const auto& [name, wait] : waits) {
    SCOPED_TRACE(name);
    silent_pair pair;
    auto raising = raise_soon(pair.stop);
    expect_interrupted([&] { wait(*pair.waiting); });
  }
}

TEST(Group, LeavesAGoodbyeWhenInterrupted) {
  silent_pair pair;
  auto raising = raise_soon(pair.stop);
  pair.waiting->leave();
  EXPECT_TRUE(pair.stop.raised()) << "said goodbye to a peer that did not answer";
}

TEST(Group, KeepsTheMemoryOfASumThatWasGivenUpWhileItMayBeWrittenInto) {
  silent_pair pair;
  auto given_up = pair.waiting->make_bucket(element::float32, 100'000, 2);
  given_up->start();
  pair.stop.raise("the generation is over");
  expect_interrupted([&] { given_up->wait(); });
  given_up.reset();
  // The peer takes part after all, so the sum goes on here: into memory that only the ring still has.
  const auto late = pair.silent->make_bucket(element::float32, 100'000, 2);
  late->sums()[0] = 3;
  late->start();
  late->wait();
  EXPECT_EQ(late->sums()[0], 3);
}

TEST(Group, BreaksWhatPeersWaitForWhenGivenUp) {
  silent_pair pair;
  const auto summed = pair.silent->make_bucket(element::float32, 1000, 0);
  summed->start();
  pair.waiting.reset();
  EXPECT_THROW(summed->wait(), error) << "only the collective time-out would have ended it";
}

TEST(Group, EndsWhereMembersDoNotExchangeTheSame) {
  silent_pair pair;
  const auto summed = pair.silent->make_bucket(element::float32, 1000, 0);
  summed->start();
  EXPECT_THROW(pair.waiting->broadcast(1, {}), error);
  try {
    summed->wait();
    FAIL() << "summed with a member that broadcasts";
  } catch (const error& problem) {
    EXPECT_THAT(problem.what(), testing::HasSubstr("rank 0 waits for 8 bytes where 4000 are sent"));
  }
}

} // namespace
} // namespace dynamix::exchange
