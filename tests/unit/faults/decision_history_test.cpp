#include "faults/decision_history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace dynamix::faults {
namespace {

using ledger::row;
using messages::decision_key;
using ::testing::HasSubstr;

constexpr std::uint64_t window_steps = 5;

row formed(std::uint64_t generation, std::size_t members) {
  return {0, ledger::generation{.generation = generation, .members = std::vector<std::string>(members, "w")}};
}

/// What one worker says of its window: what is in force at its end, and the sum of the batch sizes then.
ledger::worker said(std::uint32_t rank, std::uint64_t window, decision_key in_force, std::uint64_t total,
                    std::uint32_t decided = 32) {
  messages::window_report report{.host = "w" + std::to_string(rank),
                                 .rank = rank,
                                 .generation = 1,
                                 .window = window,
                                 .first_step = (window - 1) * window_steps,
                                 .batch = static_cast<std::uint32_t>(total / 2),
                                 .decision = in_force,
                                 .global_batch = total};
  report.training.steps = window_steps;
  return {.report = std::move(report), .decided_batch = decided};
}

row window_of(decision_key key, std::vector<ledger::worker> workers) {
  return {0, ledger::window{.key = key, .generation = 1, .workers = std::move(workers)}};
}

/// Of a window that both workers end alike.
row window(decision_key key, decision_key in_force, std::uint64_t total = 64) {
  return window_of(key, {said(0, key.window, in_force, total), said(1, key.window, in_force, total)});
}

std::string violation_of(const std::vector<row>& rows) {
  return check_decisions(rows).violation;
}

TEST(DecisionHistory, IsLinearisableWhereEachDecisionHoldsFromTheNextWindowOn) {
  const auto told = check_decisions({formed(1, 2), window({1, 1}, {}), window({1, 2}, {1, 1}), window({3, 3}, {1, 2})});
  EXPECT_EQ(told.violation, "");
  EXPECT_EQ(told.decisions, 3U);
  EXPECT_EQ(told.reads, 6U);
  EXPECT_EQ(told.unwritten, 0U);
}

TEST(DecisionHistory, FindsTwoDecisionsInForceAtOnce) {
  EXPECT_EQ(
      violation_of({formed(1, 2), window({1, 1}, {}), window_of({1, 2}, {said(0, 2, {1, 1}, 64), said(1, 2, {}, 64)})}),
      "generation 1: after step 10 w0 has window 1 of term 1 in force with 64 samples, and w1 no decision with "
      "64");
  EXPECT_THAT(violation_of({formed(1, 2), window({1, 1}, {}),
                            window_of({1, 2}, {said(0, 2, {1, 1}, 64), said(1, 2, {1, 1}, 60)})}),
              HasSubstr("with 64 samples, and w1 window 1 of term 1 with 60"));
}

TEST(DecisionHistory, TakesNoReportThatStandsInForALateOne) {
  auto late = said(1, 2, {}, 64);
  late.stale = true;
  EXPECT_EQ(violation_of({formed(1, 2), window({1, 1}, {}), window_of({1, 2}, {said(0, 2, {1, 1}, 64), late})}), "");
}

TEST(DecisionHistory, FindsAnOlderDecisionAfterANewerOne) {
  EXPECT_EQ(violation_of({formed(1, 2), window({1, 1}, {}), window({1, 2}, {1, 1}), window({2, 3}, {1, 2}),
                          window({2, 4}, {1, 1})}),
            "generation 1: after step 20 w0 has window 1 of term 1 in force, and window 2 of term 1 was before");
}

TEST(DecisionHistory, FindsADecisionInForceBeforeItsWindowHasEnded) {
  EXPECT_EQ(violation_of({formed(1, 2), window({1, 1}, {1, 2}), window({1, 2}, {1, 2})}),
            "generation 1: after step 5 w0 has window 2 of term 1 in force, whose window ended with step 10");
}

TEST(DecisionHistory, AllowsASmallGlobalBatchToGrowWhereNoDecisionComes) {
  const auto told_at = [](std::uint64_t last, std::uint64_t total, std::uint64_t initial = 0) {
    std::vector<row> rows{formed(1, 2), window({1, 1}, {})};
    for (std::uint64_t number = 2; number <= last; ++number) {
      rows.push_back(window({1, number}, {1, 1}, number == last ? total : 64));
      auto& read = std::get<ledger::window>(rows.back().entry);
      read.decided = false;
      for (auto& worker : read.workers)
        worker.report.base_batch = initial;
    }
    return violation_of(rows);
  };
  EXPECT_EQ(told_at(5, 128), "");
  EXPECT_EQ(told_at(5, 128, 128), "");
  EXPECT_THAT(told_at(5, 128, 127), HasSubstr("with 128 samples, and 64 were decided"));
  EXPECT_THAT(told_at(4, 128), HasSubstr("with 128 samples, and 64 were decided"));
  EXPECT_THAT(told_at(5, 32), HasSubstr("with 32 samples, and 64 were decided"));
}

TEST(DecisionHistory, AllowsAnyGlobalBatchWhereWorkersChooseIt) {
  const auto under = [](const std::string& policy) {
    return violation_of(
        {row{0, ledger::start{.policy = policy}}, formed(1, 2), window({1, 1}, {}), window({1, 2}, {1, 1}, 96)});
  };
  EXPECT_EQ(under("stigmergic"), "");
  EXPECT_THAT(under("ppo"), HasSubstr("64 were decided"));
}

TEST(DecisionHistory, LetsScriptsFormTheirGroupAnewInMidGeneration) {
  const auto of_scripts = [](const std::vector<row>& rows) {
    return check_decisions(rows, trained_by::scripts).violation;
  };
  const std::vector<row> anew{formed(1, 2), window({1, 1}, {}), window({1, 2}, {1, 1}), window({1, 3}, {}, 60),
                              window({1, 4}, {1, 3})};
  EXPECT_EQ(of_scripts(anew), "");
  EXPECT_EQ(check_decisions(anew, trained_by::scripts).reads, 4U) << "none in force is no reading of a decision";
  EXPECT_THAT(violation_of(anew), HasSubstr("has no decision in force, and window 1 of term 1 was before"));

  const auto dead = window_of({1, 2}, {said(0, 2, {1, 1}, 64), said(1, 2, {}, 64)}); // its step is done again
  EXPECT_EQ(of_scripts({formed(1, 2), window({1, 1}, {}), dead}), "");
  EXPECT_EQ(of_scripts({formed(1, 2), window({1, 1}, {}), window({1, 2}, {1, 1}, 32)}), "") << "one is gone";
  auto partly = window({1, 2}, {1, 1}, 96); // a third one has 32 more, and no agent
  for (auto& worker : std::get<ledger::window>(partly.entry).workers)
    worker.report.batch = 32;
  EXPECT_EQ(of_scripts({formed(1, 2), window({1, 1}, {}), partly}), "");
  EXPECT_THAT(violation_of({formed(1, 2), window({1, 1}, {}), partly}), HasSubstr("with 96 samples, and 64"));
}

TEST(DecisionHistory, HoldsScriptsToTheOrderOfTheirDecisions) {
  const auto of_scripts = [](const std::vector<row>& rows) {
    return check_decisions(rows, trained_by::scripts).violation;
  };
  EXPECT_THAT(of_scripts({formed(1, 2), window({1, 1}, {}), window({1, 2}, {1, 1}), window({1, 3}, {1, 2}),
                          window({1, 4}, {}), window({1, 5}, {1, 1})}),
              HasSubstr("has window 1 of term 1 in force, and window 2 of term 1 was before"));
  EXPECT_THAT(of_scripts({formed(1, 2), window({1, 1}, {}), window({1, 2}, {1, 1}),
                          window_of({1, 3}, {said(0, 3, {1, 1}, 64), said(1, 3, {1, 2}, 64)})}),
              HasSubstr("and w1 window 2 of term 1"));
  EXPECT_THAT(of_scripts({formed(1, 2), window({1, 1}, {}), window({1, 2}, {1, 1}, 96)}),
              HasSubstr("with 96 samples, and 64 were decided"));
}

TEST(DecisionHistory, FindsBatchSizesThatNobodyDecided) {
  EXPECT_EQ(violation_of({formed(1, 2), window({1, 1}, {}), window({1, 2}, {1, 1}, 96)}),
            "generation 1: after step 10 w0 has window 1 of term 1 in force with 96 samples, and 64 were decided");
  const auto part = window_of({1, 1}, {said(0, 1, {}, 64)}); // another shard tells of the other worker, or nobody does
  EXPECT_EQ(violation_of({formed(1, 2), part, window({1, 2}, {1, 1}, 96)}), "");
}

TEST(DecisionHistory, CountsDecisionsOfWhichNoRowTells) {
  const auto told = check_decisions({formed(1, 2), window({1, 1}, {}), window({4, 3}, {2, 2}, 80)});
  EXPECT_EQ(told.violation, "") << "an arbitrator died between deciding and its row";
  EXPECT_EQ(told.unwritten, 1U);
}

TEST(DecisionHistory, ReadsRowsOfSeveralLeadersInAnyOrder) {
  EXPECT_EQ(violation_of({formed(1, 2), window({2, 3}, {1, 2}), window({1, 2}, {1, 1}), window({1, 1}, {})}), "");
}

TEST(DecisionHistory, BeginsAnewWithAGenerationWhoseNumberIsUsedAgain) {
  EXPECT_EQ(violation_of({formed(1, 2), window({1, 1}, {}), window({1, 2}, {1, 1}), formed(1, 2), window({1, 1}, {}),
                          window({1, 2}, {1, 1})}),
            "");
}

/// Whether decisions, each once and none after a newer one, can be put between the steps so that every read is of the
/// last before it. By trying all.
bool some_order_explains(const std::map<decision_key, std::uint64_t>& ended,
                         const std::map<std::uint64_t, std::vector<decision_key>>& reads, decision_key now) {
  if (reads.empty())
    return true;
  const auto& [step, read] = *reads.begin();
  auto others = reads;
  others.erase(others.begin());
  if (std::ranges::all_of(read, [&](const auto& key) { return key == now; }) && some_order_explains(ended, others, now))
    return true;
  return std::ranges::any_of(ended, [&](const auto& one) {
    return now < one.first && one.second <= step && some_order_explains(ended, reads, one.first);
  });
}

TEST(DecisionHistory, AgreesWithTryingEveryOrder) {
  std::mt19937_64 random(43);
  std::uint64_t explained = 0;
  constexpr std::uint64_t histories = 4000;
  for (std::uint64_t number = 0; number < histories; ++number) {
    constexpr std::uint64_t windows = 4;
    std::vector<row> rows = {formed(1, 2)};
    std::map<decision_key, std::uint64_t> ended;
    std::map<std::uint64_t, std::vector<decision_key>> reads;
    decision_key in_force;
    std::vector<std::vector<ledger::worker>> workers;
    for (std::uint64_t each = 1; each <= windows; ++each) {
      if (each > 1 && random() % 2 == 0)
        in_force = {1, each - 1};
      auto& of = workers.emplace_back();
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        // Mostly as it must be, sometimes any.
        const auto any = random() % (windows + 1);
        const auto key = random() % 8 > 0 ? in_force : any == 0 ? decision_key{} : decision_key{1, any};
        of.push_back(said(rank, each, key, 64));
        reads[each * window_steps].push_back(key);
      }
      ended[{1, each}] = each * window_steps;
    }
    for (std::uint64_t each = 1; each <= windows; ++each)
      rows.push_back(window_of({1, each}, workers[each - 1]));
    const bool possible = some_order_explains(ended, reads, {});
    ASSERT_EQ(violation_of(rows).empty(), possible) << "history " << number << ": " << violation_of(rows);
    explained += possible ? 1 : 0;
  }
  EXPECT_GT(explained, histories / 10);
  EXPECT_LT(explained, histories * 9 / 10);
}

} // namespace
} // namespace dynamix::faults
