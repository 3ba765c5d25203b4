#include "ledger/decision_count.hpp"

#include <gtest/gtest.h>

#include <string>

namespace dynamix::ledger {
namespace {

/// Window `number`, decided, of one worker that has applied what was decided on window `applied` (0: nothing yet).
row decided(const std::string& host, std::uint64_t number, std::uint64_t applied = 0) {
  ledger::window window{.key = {.term = 1, .window = number}, .generation = 1, .decided = true};
  window.workers.emplace_back();
  window.workers.back().report.host = host;
  window.workers.back().report.decision = {applied == 0 ? 0U : 1U, applied};
  return {.entry = window};
}

std::map<std::string, std::uint64_t> by_cause(const decision_count::made& made) {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& end : made.ends)
    counts[end.ended] += end.most;
  return counts;
}

/// A root closes a window without a shard that is late, whose workers' reports before stand in: theirs are no decisions
/// that could be lost. A shard does decide on an old report, and says so in its account.
TEST(DecisionCount, CountsNoDecisionWhereTheRootOfATreeLetAnOldReportStandIn) {
  decision_count count(false);
  ledger::window window{.key = {.term = 1, .window = 5}, .generation = 1, .decided = true};
  for (const std::uint32_t rank : {0U, 1U, 2U, 3U}) {
    window.workers.emplace_back();
    window.workers.back().report.host = "w" + std::to_string(rank);
    window.workers.back().report.rank = rank;
    window.workers.back().stale = rank != 0;
  }
  window.workers[3].report.final = true;
  window.workers[3].stale = false;
  count.add({.entry = window});
  count.add({.entry = tree{.known = {},
                           .accounts = {{.ranks = {0, 1}, .unguided = {}, .forgotten = {}}},
                           .votes = {},
                           .untrained = {}}});
  const auto made = count.by_host();
  EXPECT_EQ(made.at("w0").count, 1U);
  EXPECT_EQ(made.at("w1").count, 1U) << "its shard decided on its old report";
  EXPECT_EQ(made.at("w2").count, 0U);
  EXPECT_FALSE(made.contains("w3")) << "who ends takes no decision";
  count.add(decided("w2", 6, 5));
  EXPECT_EQ(count.by_host().at("w2").count, 2U) << "its shard did decide, too late for the root to hear of it";
}

TEST(DecisionCount, ForgetsTheHostsThatHaveBeenAwayTheLongest) {
  decision_count count(false);
  constexpr auto guests = decision_count::hosts_kept + 100;
  std::uint64_t window = 0;
  count.add(decided("stays", ++window));
  for (std::size_t i = 0; i < guests; ++i) {
    count.add(decided("guest-" + std::to_string(i), ++window));
    count.add(decided("stays", ++window));
  }
  const auto made = count.by_host();
  EXPECT_EQ(made.size(), decision_count::hosts_kept);
  EXPECT_EQ(made.at("stays").count, 1 + guests);
  EXPECT_FALSE(made.contains("guest-0"));
  EXPECT_TRUE(made.contains("guest-" + std::to_string(guests - 1)));
}

TEST(DecisionCount, JoinsOldEndsByCauseAndDropsNone) {
  decision_count count(false);
  const std::uint64_t ends = 10 * decision_count::ends_kept;
  for (std::uint64_t window = 1; window <= ends; ++window) {
    count.add(decided("w0", window));
    count.add({.entry = event{window % 2 == 0 ? event_kind::lost : event_kind::rejoined, "w0", ""}});
  }
  const auto made = count.by_host().at("w0");
  EXPECT_EQ(made.count, ends);
  EXPECT_LE(made.ends.size(), decision_count::ends_kept + 2);
  EXPECT_EQ(by_cause(made), (std::map<std::string, std::uint64_t>{{"generation", ends / 2}, {"worker", ends / 2}}));
  count.add(decided("w0", ends + 1, ends));
  EXPECT_LE(count.by_host().at("w0").ends.size(), decision_count::ends_kept + 2);
  EXPECT_EQ(by_cause(count.by_host().at("w0")).at("worker"), ends / 2 - 1) << "the newest of them has been applied";
}

} // namespace
} // namespace dynamix::ledger
