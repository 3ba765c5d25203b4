#include "actors/aggregator/gather.hpp"

#include <gtest/gtest.h>

#include <random>

namespace dynamix::actors {
namespace {

messages::window_report report_of(std::uint32_t rank, std::uint64_t window, std::uint64_t generation = 1) {
  return {.host = "host", .rank = rank, .generation = generation, .window = window, .batch = 64};
}

gather gather_of(std::uint32_t workers, std::optional<std::uint64_t> next_window = {}) {
  gather windows(1, next_window);
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    windows.joined(rank);
  return windows;
}

TEST(Gather, ClosesAWindowWhenEveryWorkerHasReported) {
  auto windows = gather_of(3);
  EXPECT_TRUE(windows.add(report_of(2, 1), 10.0).empty());
  EXPECT_TRUE(windows.add(report_of(0, 1), 10.1).empty());
  const auto closed = windows.add(report_of(1, 1), 10.25);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].window, 1U);
  EXPECT_EQ(closed[0].expected, 3U);
  EXPECT_NEAR(closed[0].gather_seconds, 0.25, 1e-9);
  ASSERT_EQ(closed[0].reports.size(), 3U);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(closed[0].reports[rank].rank, rank);
}

TEST(Gather, LetsTheLastReportStandInAtTheDeadline) {
  auto windows = gather_of(2);
  windows.add(report_of(0, 1), 0);
  windows.add(report_of(1, 1), 0);
  windows.add(report_of(0, 2), 1);
  const auto closed = windows.deadline(2, 1.5);
  ASSERT_EQ(closed.size(), 1U);
  ASSERT_EQ(closed[0].reports.size(), 2U);
  EXPECT_EQ(closed[0].reports[0].window, 2U);
  EXPECT_EQ(closed[0].reports[1].window, 1U) << "the old report of the late worker";
  EXPECT_TRUE(windows.deadline(2, 2.0).empty()) << "a window closes once";
  EXPECT_TRUE(windows.add(report_of(1, 2), 2.0).empty()) << "what comes late closes nothing";
}

TEST(Gather, LeavesOutAWorkerThatNeverReported) {
  auto windows = gather_of(2);
  windows.add(report_of(0, 1), 0);
  const auto closed = windows.deadline(1, 1);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].reports.size(), 1U);
}

TEST(Gather, GoesOnWhenAReportWasLost) {
  auto windows = gather_of(2);
  windows.add(report_of(0, 1), 0);
  const auto closed = windows.add(report_of(0, 2), 1);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].window, 1U);
  EXPECT_EQ(windows.open_window(), 2U);
}

TEST(Gather, DoesNotWaitForAWorkerThatLeft) {
  auto windows = gather_of(2);
  windows.add(report_of(0, 1), 0);
  const auto closed = windows.left(1, 1);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].reports.size(), 1U);
}

/// What it decided cannot be decided again from the others.
TEST(Gather, PassesOnAShardsAccountOnlyWithAllItsReports) {
  auto windows = gather_of(3);
  const auto part = [](std::uint64_t window, const std::vector<std::uint32_t>& ranks) {
    messages::shard_window shard{.window = window, .generation = 1, .expected = 2, .reports = {}, .choices = {}};
    for (const auto rank : ranks) {
      shard.reports.push_back(report_of(rank, window));
      shard.choices.push_back({.rank = rank});
    }
    shard.accounts.push_back({.arbitrator = window, .ranks = ranks, .unguided = {}, .forgotten = {}});
    return shard;
  };
  EXPECT_TRUE(windows.add(part(1, {0, 1}), 0).empty());
  auto other = part(1, {1, 2}); // worker 1 has moved to that shard, and has another report for it
  other.reports[0].batch = 65;
  auto closed = windows.add(other, 0);
  ASSERT_EQ(closed.size(), 1U);
  ASSERT_EQ(closed[0].joined().accounts.size(), 1U);
  EXPECT_EQ(closed[0].accounts[0].ranks, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_TRUE(windows.add(part(2, {0, 1}), 0).empty());
  closed = windows.add(part(3, {2}), 0); // late with window 2, which closes without it
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].accounts.size(), 1U);
  EXPECT_TRUE(windows.add(part(2, {2}), 0).empty());
  closed = windows.add(part(3, {0, 1}), 0);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].accounts.size(), 2U);
}

/// A shard is lost whose decision has not reached its worker, and a sibling decides on the same report. Once the root
/// dropped the account of all workers of that sibling, by which what it decided later can be decided again.
TEST(Gather, KeepsTheAccountOfAShardThatDecidesAgainForTheWorkerOfALostOne) {
  const auto part = [](std::uint64_t arbitrator, const std::vector<std::uint32_t>& ranks, std::uint32_t batch) {
    messages::shard_window shard{.window = 4, .generation = 1, .expected = 2, .reports = {}, .choices = {}};
    for (const auto rank : ranks) {
      shard.reports.push_back(report_of(rank, 4));
      shard.choices.push_back({.rank = rank, .batch = batch});
    }
    shard.accounts.push_back({.arbitrator = arbitrator, .ranks = ranks, .unguided = {}, .forgotten = {}});
    return shard;
  };
  auto windows = gather_of(4);
  EXPECT_TRUE(windows.add(part(8, {0, 1}, 30), 0).empty());
  EXPECT_TRUE(windows.left(1, 0.1).empty());
  windows.joined(1);
  const auto closed = windows.add(part(9, {1, 2, 3}, 40), 0.2);
  ASSERT_EQ(closed.size(), 1U);
  ASSERT_EQ(closed[0].accounts.size(), 2U);
  EXPECT_EQ(closed[0].accounts[1].ranks, (std::vector<std::uint32_t>{1, 2, 3}));
  ASSERT_EQ(closed[0].choices.size(), 4U);
  EXPECT_EQ(closed[0].choices[0].batch, 30U);
  EXPECT_EQ(closed[0].choices[1].batch, 40U) << "the worker has heard of this one alone";
}

/// What a shard decides later follows from all that it has decided on, also where the root has lost the worker since.
TEST(Gather, KeepsWhatAShardHasDecidedOnOfAWorkerThatIsLost) {
  const auto shard = [](std::uint64_t window, std::uint32_t first) {
    return messages::shard_window{.window = window,
                                  .generation = 1,
                                  .expected = 2,
                                  .reports = {report_of(first, window), report_of(first + 1, window)},
                                  .choices = {{.rank = first}, {.rank = first + 1}},
                                  .accounts = {{.ranks = {first, first + 1}, .unguided = {}, .forgotten = {}}}};
  };
  for (const bool lost_first : {true, false}) {
    auto windows = gather_of(4);
    EXPECT_TRUE(windows.add(shard(1, 0), 0).empty());
    EXPECT_EQ(windows.add(shard(1, 2), 0).size(), 1U);
    if (lost_first) {
      EXPECT_TRUE(windows.left(1, 1).empty());
    }
    EXPECT_TRUE(windows.add(shard(2, 0), 1).empty());
    if (!lost_first) {
      EXPECT_TRUE(windows.left(1, 1).empty());
    }
    auto closed = windows.add(shard(2, 2), 2);
    ASSERT_EQ(closed.size(), 1U);
    EXPECT_EQ(closed[0].reports.size(), 4U);
    EXPECT_EQ(closed[0].reports.size(), closed[0].choices.size());
    EXPECT_EQ(closed[0].accounts.size(), 2U);
    auto rest = shard(3, 0);
    rest.reports.pop_back();
    rest.choices.pop_back();
    rest.accounts[0].ranks = {0};
    EXPECT_TRUE(windows.add(rest, 3).empty());
    closed = windows.add(shard(3, 2), 3);
    ASSERT_EQ(closed.size(), 1U);
    EXPECT_EQ(closed[0].reports.size(), 3U) << "it is in no later one";
    EXPECT_EQ(closed[0].expected, 3U);
  }
}

/// A report that stands in would be counted as decided on, and its worker as one that a decision has not reached.
TEST(Gather, ClosesWithNoOldReportsWhenItsGenerationIsOver) {
  auto windows = gather_of(2);
  const auto part = [](std::uint32_t rank, std::uint64_t window) {
    return messages::shard_window{.window = window,
                                  .generation = 1,
                                  .expected = 1,
                                  .reports = {report_of(rank, window)},
                                  .choices = {{.rank = rank}},
                                  .accounts = {{.ranks = {rank}, .unguided = {}, .forgotten = {}}}};
  };
  EXPECT_TRUE(windows.over(0).empty());
  EXPECT_TRUE(windows.add(part(0, 1), 0).empty());
  EXPECT_EQ(windows.add(part(1, 1), 0).size(), 1U);
  EXPECT_TRUE(windows.over(1).empty());
  EXPECT_TRUE(windows.add(part(1, 2), 1).empty());
  const auto closed = windows.over(2);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].window, 2U);
  EXPECT_EQ(closed[0].expected, 2U);
  ASSERT_EQ(closed[0].reports.size(), 1U);
  EXPECT_EQ(closed[0].reports[0].rank, 1U);
  EXPECT_EQ(closed[0].accounts.size(), 1U);
}

TEST(Gather, TakesNoReportOfAShardsWorkerThatWasNeverHere) {
  auto windows = gather_of(1);
  messages::shard_window shard{.window = 1,
                               .generation = 1,
                               .reports = {report_of(0, 1), report_of(7, 1)},
                               .choices = {{.rank = 0}, {.rank = 7}},
                               .accounts = {{.ranks = {0, 7}, .unguided = {}, .forgotten = {}}}};
  const auto closed = windows.add(shard, 0);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].reports.size(), 1U);
  EXPECT_TRUE(closed[0].accounts.empty());
}

/// An arbitrator with a valid key says as many as it likes, as often as it likes.
TEST(Gather, TakesNoMoreAccountsThanThereCanBeShards) {
  auto windows = gather_of(2);
  messages::shard_window shard{.window = 1, .generation = 1, .expected = 1, .reports = {}, .choices = {}};
  const messages::shard_account idle{.arbitrator = 7, .ranks = {}, .unguided = {}, .forgotten = {}};
  shard.accounts.assign(messages::max_workers, idle);
  for (int again = 0; again < 3; ++again)
    EXPECT_TRUE(windows.add(shard, 0).empty());
  auto closed = windows.deadline(1, 1);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].accounts.size(), messages::max_workers);

  shard.window = 2;
  shard.reports = {report_of(0, 2)};
  shard.choices = {{.rank = 0}};
  shard.accounts.assign(2, {.arbitrator = 7, .ranks = {0}, .unguided = {}, .forgotten = {}});
  shard.accounts.push_back({.arbitrator = 8, .ranks = {}, .unguided = {1}, .forgotten = {}});
  auto gone = idle;
  gone.forgotten.resize(messages::max_workers);
  shard.accounts.insert(shard.accounts.end(), 2, gone);
  EXPECT_TRUE(windows.add(shard, 2).empty());
  closed = windows.deadline(2, 3);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].accounts.size(), 3U) << "two on worker 0, one of all that have left";
}

TEST(Gather, WaitsInItsFirstWindowForWhoIsOnTheWay) {
  auto windows = gather_of(1);
  windows.coming(1);
  windows.coming(2);
  EXPECT_TRUE(windows.add(report_of(0, 7), 0).empty());
  windows.joined(1);
  EXPECT_TRUE(windows.add(report_of(1, 7), 0.1).empty());
  windows.joined(2);
  const auto closed = windows.add(report_of(2, 7), 0.2);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].reports.size(), 3U);
}

TEST(Gather, WaitsUntilTheFirstDeadlineAndNoLongerForWhoDoesNotCome) {
  auto windows = gather_of(1);
  windows.coming(1);
  EXPECT_TRUE(windows.add(report_of(0, 7), 0).empty());
  EXPECT_EQ(windows.deadline(7, 0.5).size(), 1U);
  EXPECT_EQ(windows.add(report_of(0, 8), 1).size(), 1U);
}

/// One report of a window that nobody can have reached once made every true one too old to be gathered.
TEST(Gather, RefusesAWindowFarAhead) {
  auto windows = gather_of(2, 1);
  constexpr auto far = messages::max_counter;
  EXPECT_TRUE(windows.is_too_far(far));
  EXPECT_TRUE(windows.add(report_of(0, far), 0).empty());
  EXPECT_TRUE(
      windows.add(messages::shard_window{.window = far, .generation = 1, .reports = {}, .choices = {}}, 0).empty());
  EXPECT_TRUE(windows.deadline(far, 1).empty());
  windows.add(report_of(0, 1), 1);
  EXPECT_EQ(windows.add(report_of(1, 1), 1).size(), 1U);
}

/// A report a thousand windows ahead, or that many one after the other, once made every true window too old.
TEST(Gather, LetsNoWorkerAloneMakeTheOthersWindowsOld) {
  for (const std::uint64_t stride : {1, 1000}) {
    auto windows = gather_of(3, 1);
    for (std::uint64_t window = 1; window <= 1000; window += stride) {
      windows.reached(0, window + 1000, 0); // its signs of life lie, too
      EXPECT_TRUE(windows.add(report_of(0, window + 1000), 0).empty());
    }
    for (std::uint64_t window = 1; window <= 5; ++window) {
      EXPECT_TRUE(windows.add(report_of(1, window), 1).empty());
      EXPECT_TRUE(windows.add(report_of(2, window), 1).empty());
      const auto closed = windows.deadline(window, 2);
      ASSERT_EQ(closed.size(), 1U) << "window " << window;
      EXPECT_EQ(closed[0].reports.size(), 2U);
    }
  }
}

TEST(Gather, TakesAReportAheadOnceAnotherWorkerHasGotThere) {
  auto windows = gather_of(2, 1);
  windows.add(report_of(0, 1), 0);
  EXPECT_EQ(windows.add(report_of(1, 1), 0).size(), 1U);
  windows.add(report_of(0, 9), 1);
  EXPECT_EQ(windows.open_window(), 0U) << "the other has told of window 1";
  windows.reached(1, 9, 2);
  EXPECT_EQ(windows.open_window(), 9U) << "8 are completed";
  const auto closed = windows.add(report_of(1, 9), 3);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].reports.size(), 2U);
}

TEST(Gather, TakesAReportAheadOnceNobodyElseIsThere) {
  auto windows = gather_of(2, 1);
  windows.add(report_of(0, 9), 1);
  const auto closed = windows.left(1, 2);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].window, 9U);
}

TEST(Gather, TakesWhatSignsOfLifeHaveToldOf) {
  auto windows = gather_of(1, 1);
  const std::uint64_t later = 60'000;
  windows.reached(later);
  windows.reached(messages::max_counter); // not believed
  EXPECT_FALSE(windows.is_too_far(2 * later));
  EXPECT_TRUE(windows.is_too_far(messages::max_counter));
  EXPECT_EQ(windows.add(report_of(0, 2 * later), 0).size(), 1U);
}

TEST(Gather, GoesByTheFirstReportWhereNothingIsKnown) {
  auto windows = gather_of(1);
  EXPECT_EQ(windows.add(report_of(0, 10'000'000), 0).size(), 1U) << "a shard is not told where training stands";
  EXPECT_TRUE(windows.is_too_far(messages::max_counter));
}

TEST(Gather, RefusesReportsOfAnotherGenerationOrOfStrangers) {
  auto windows = gather_of(1);
  EXPECT_TRUE(windows.add(report_of(0, 1, 2), 0).empty());
  EXPECT_TRUE(windows.add(report_of(5, 1), 0).empty());
  EXPECT_EQ(windows.open_window(), 0U);
}

TEST(Gather, WhatAFinishedWorkerReportedOfTheOpenWindowCounts) {
  auto windows = gather_of(2);
  EXPECT_TRUE(windows.add(report_of(0, 1), 0).empty());
  EXPECT_TRUE(windows.finished(0, 1).empty());
  const auto closed = windows.add(report_of(1, 1), 2);
  ASSERT_EQ(closed.size(), 1U);
  ASSERT_EQ(closed[0].reports.size(), 2U);
  EXPECT_TRUE(closed[0].reports[0].final) << "no decision would reach it any more";
  EXPECT_FALSE(closed[0].reports[1].final);
  EXPECT_EQ(closed[0].expected, 2U);
  const auto next = windows.add(report_of(1, 2), 3);
  ASSERT_EQ(next.size(), 1U) << "nobody waits for it";
  EXPECT_EQ(next[0].reports.size(), 1U);
}

TEST(Gather, TellsWhoEndsWhileItsLastReportWaitsForTheOthers) {
  auto windows = gather_of(2, 1);
  EXPECT_TRUE(windows.add(report_of(0, 1), 0).empty());
  auto last = report_of(0, 2);
  last.final = true;
  EXPECT_TRUE(windows.add(last, 0.1).empty()) << "nobody else has completed window 1";
  const auto closed = windows.add(report_of(1, 1), 0.2);
  ASSERT_FALSE(closed.empty());
  EXPECT_TRUE(closed[0].reports[0].final) << "a decision would not reach it any more";
  EXPECT_FALSE(closed[0].reports[1].final);
}

TEST(Gather, TellsWhoEndsWhereItsLastReportClosesTheWindowBefore) {
  auto windows = gather_of(2, 1);
  windows.add(report_of(0, 1), 0);
  auto last = report_of(0, 2);
  last.final = true;
  windows.add(last, 0.1);
  const auto closed = windows.reached(1, 2, 0.2);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].window, 1U);
  EXPECT_TRUE(closed[0].reports.at(0).final);
}

TEST(Gather, WaitsForWhoIsPresentThoughTheReportOfOneThatFinishedComesUp) {
  auto windows = gather_of(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    windows.add(report_of(rank, 1), 0);
  windows.add(report_of(2, 2), 1);
  EXPECT_TRUE(windows.add(report_of(2, 3), 1).empty()) << "nobody else has completed window 2";
  windows.finished(2, 1);
  ASSERT_EQ(windows.deadline(2, 1.5).size(), 1U);
  EXPECT_TRUE(windows.add(report_of(0, 2), 2).empty()) << "its report of window 3 comes up now, and opens it";
  EXPECT_TRUE(windows.add(report_of(0, 3), 2).empty()) << "nobody else who is present has completed window 2";
  windows.finished(0, 2);
  EXPECT_TRUE(windows.add(report_of(1, 2), 3).empty()) << "one more report of window 3 comes up, and not from rank 1";
  const auto closed = windows.add(report_of(1, 3), 4);
  ASSERT_EQ(closed.size(), 1U);
  ASSERT_EQ(closed[0].reports.size(), 3U);
  for (const auto& report : closed[0].reports)
    EXPECT_EQ(report.window, 3U);
}

/// Any order, loss and repetition of reports: windows close in rising order, each at most once, ordered by rank.
TEST(Gather, ClosesWindowsInOrderAndOnceUnderLossAndReordering) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 generator(seed);
    constexpr std::uint32_t workers = 4;
    auto windows = gather_of(workers);
    std::uint64_t last = 0;
    auto check = [&](const std::vector<closed_window>& closed) {
      for (const auto& shard : closed) {
        ASSERT_GT(shard.window, last) << "seed " << seed;
        last = shard.window;
        for (std::size_t i = 1; i < shard.reports.size(); ++i)
          ASSERT_LT(shard.reports[i - 1].rank, shard.reports[i].rank);
        for (const auto& report : shard.reports)
          ASSERT_LE(report.window, shard.window);
      }
    };
    std::vector<std::uint64_t> next(workers, 1);
    for (int step = 0; step < 200; ++step) {
      const auto rank = static_cast<std::uint32_t>(generator() % workers);
      switch (generator() % 5) {
      case 0:
        check(windows.deadline(windows.open_window(), step));
        break;
      case 1:
        ++next[rank];
        break; // lost on the way
      case 2:
        check(windows.add(report_of(rank, std::max<std::uint64_t>(1, next[rank] - 1)), step));
        break; // again
      default:
        check(windows.add(report_of(rank, next[rank]++), step));
      }
    }
    EXPECT_GT(last, 0U) << "seed " << seed;
  }
}

} // namespace
} // namespace dynamix::actors
