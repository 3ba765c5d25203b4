/// Runs that a worker's host left in order.

#include "node/reports/report.hpp"
#include "node/reports/run_records.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

messages::farewell left(std::uint32_t rank) {
  auto said = farewell(rank);
  said.succeeded = false;
  said.reason = "left: its host was asked to end, after step 20; checkpoint c written";
  said.parameter_checksum = 5;
  said.decisions = {.received = 1, .unapplied = 1};
  return said;
}

/// Ben leaves behind window 2, whose decision is still on its way to it.
written_run run_without_ben() {
  auto records = sample_records();
  records.farewells[1] = left(1);
  records.rows.insert(records.rows.end() - 1, {5, ledger::farewell{left(1)}});
  return records;
}

TEST(LeaveSummary, TellsWhoLeftAndTakesItForNoFailure) {
  const auto summary = summarise(run_without_ben());
  EXPECT_TRUE(summary.succeeded);
  EXPECT_EQ(summary.reason, "epochs completed");
  EXPECT_THAT(summary.left, ElementsAre("ben"));
  EXPECT_THAT(summary.warnings, IsEmpty()) << "other parameters than those who ended together are no wonder";
  EXPECT_THAT(result_block(summary), HasSubstr("hosts left     ben, in order, before the end"));
  EXPECT_EQ(nlohmann::json::parse(to_json(summary))["left"], nlohmann::json({"ben"}));
}

TEST(LeaveSummary, TellsOfReplicasThatLeftAndAreNotBack) {
  auto records = run_without_ben();
  for (const auto* name : {"cy", "dot"})
    records.file.hosts.push_back({.name = name, .port = 1, .roles = {cluster::role::arbitrator}});
  for (const auto& [event, host] :
       {std::pair(ledger::event_kind::left, "cy"), std::pair(ledger::event_kind::left, "dot"),
        std::pair(ledger::event_kind::follows, "dot"), std::pair(ledger::event_kind::left, "ben")})
    records.rows.push_back({6, ledger::event{event, host, ""}});
  EXPECT_THAT(summarise(records).left, ElementsAre("ben", "cy")) << "a worker's host says it by its farewell";
  EXPECT_TRUE(summarise(records).succeeded);
}

TEST(LeaveSummary, CallsNoDecisionLostThatWasOnItsWayWhenTheWorkerLeft) {
  const auto decisions = summarise(run_without_ben()).decisions;
  EXPECT_EQ(decisions.made, 4U);
  EXPECT_EQ(decisions.lost, 0U);
  EXPECT_THAT(decisions.losses, ElementsAre(Pair("leave", 1U)));
}

TEST(LeaveSummary, CallsNoDecisionLostThatWasMadeAfterTheWorkerHadLeft) {
  auto records = run_without_ben();
  std::swap(records.rows[records.rows.size() - 2], records.rows[records.rows.size() - 3]);
  EXPECT_THAT(summarise(records).decisions.losses, ElementsAre(Pair("leave", 1U)));
  EXPECT_EQ(summarise(records).decisions.lost, 0U);
}

TEST(LeaveSummary, FailsWhereOthersFailedOrDidNotSayHowTheyEnded) {
  auto records = run_without_ben();
  records.farewells[0].succeeded = false;
  records.farewells[0].reason = "out of memory";
  EXPECT_FALSE(summarise(records).succeeded);
  EXPECT_EQ(summarise(records).reason, "out of memory");
  records.farewells.erase(records.farewells.begin());
  EXPECT_FALSE(summarise(records).succeeded);
}

TEST(LeaveSummary, TakesARunThatAllHaveLeftForOneThatWasStopped) {
  auto records = run_without_ben();
  records.farewells[0] = left(0);
  EXPECT_TRUE(summarise(records).succeeded);
  EXPECT_EQ(summarise(records).reason, "all workers have left");
  EXPECT_THAT(summarise(records).left, ElementsAre("ada", "ben"));
}

} // namespace
} // namespace dynamix::node
