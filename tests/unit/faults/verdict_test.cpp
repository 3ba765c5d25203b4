#include "faults/verdict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dynamix::faults {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A kill that was found after 0.2 s, went on after 0.5 s and was recovered from after 3 s.
fault_record good_record(std::uint32_t number = 1) {
  const double at = 10.0 * number;
  return {.plan = {.number = number, .kind = fault_kind::kill, .hosts = {"w1"}},
          .began_seconds = at,
          .ended_seconds = at,
          .detected_seconds = at + 0.2,
          .resumed_seconds = at + 0.5,
          .recovered_seconds = at + 3,
          .steps_lost = 1,
          .bit = true,
          .evidence = "signal 9"};
}

run_figures good_figures() {
  return {.succeeded = true,
          .decisions_made = 40,
          .decisions_applied = 39,
          .steps = 100,
          .samples = 6400,
          .final_accuracy = 0.85,
          .unharmed_accuracy = 0.86};
}

ledger::row window(std::uint64_t term, std::uint64_t number) {
  return {0, ledger::window{.key = {term, number}, .generation = 1, .decided = true}};
}

class AVerdict : public ::testing::Test {
protected:
  verdict judge_all() const { return judge(plan_, records_, rows_, figures_); }

  fault_plan plan_;
  std::vector<fault_record> records_ = {good_record(1), good_record(2)};
  std::vector<ledger::row> rows_ = {window(1, 1), window(1, 2), window(2, 3)};
  run_figures figures_ = good_figures();
};

TEST_F(AVerdict, IsCleanWhenAllIsRecoveredFrom) {
  const auto judged = judge_all();
  EXPECT_TRUE(judged.clean);
  EXPECT_THAT(judged.reasons, IsEmpty());
  ASSERT_EQ(judged.kinds.size(), 1U);
  EXPECT_EQ(judged.kinds[0].injected, 2U);
  EXPECT_EQ(judged.all.bit, 2U);
  EXPECT_EQ(judged.all.steps_lost, 2U);
  EXPECT_NEAR(judged.all.detection.p50, 0.2, 1e-9);
  EXPECT_NEAR(judged.all.resumption.p99, 0.5, 1e-9);
  EXPECT_NEAR(judged.all.recovery.max, 3, 1e-9);
  EXPECT_THAT(to_text(judged), HasSubstr("verdict: clean"));
}

TEST_F(AVerdict, NamesFaultsWithoutEffect) {
  records_[1].bit = false;
  records_[1].evidence = "w1 had no process";
  const auto judged = judge_all();
  EXPECT_THAT(judged.reasons, ElementsAre("1 faults had no effect"));
  EXPECT_THAT(to_text(judged), HasSubstr("had no effect: kill w1 at 20.0 s: w1 had no process"));
}

TEST_F(AVerdict, TakesNoOffenceAtAWallClockThatNobodyReads) {
  records_[1].plan.kind = fault_kind::clock_jump;
  records_[1].bit = false;
  EXPECT_TRUE(judge_all().clean);
  EXPECT_THAT(judge_all().without_effect, ElementsAre(HasSubstr("clock_jump w1 at 20.0 s")));
}

TEST_F(AVerdict, NamesWhatWasLost) {
  records_[1].steps_lost = 3;
  records_[0].recovered_seconds = -1;
  figures_.decisions_lost = 2;
  figures_.decisions_duplicated = 1;
  EXPECT_THAT(judge_all().reasons,
              ElementsAre("2 decisions were lost", "1 decisions came twice", "1 faults were not recovered from in time",
                          "4 steps were lost in 2 faults; 1 each are allowed"));
}

TEST_F(AVerdict, TellsOfNoStepsThatScriptsLost) {
  plan_.script = "python3 train.py";
  records_[1].steps_lost = 3000; // which they trained while their agents formed a generation
  const auto judged = judge_all();
  EXPECT_TRUE(judged.clean);
  EXPECT_THAT(to_text(judged), Not(HasSubstr("steps lost,")));
  const auto object = nlohmann::json::parse(to_json(judged, plan_, records_));
  EXPECT_TRUE(object["all"]["steps_lost"].is_null());
  EXPECT_TRUE(object["injected"][1]["steps_lost"].is_null());
}

TEST_F(AVerdict, FindsTwoDecisionsOfAWindowAndOldTerms) {
  rows_.push_back(window(2, 3));
  rows_.push_back(window(1, 4));
  const auto judged = judge_all();
  EXPECT_EQ(judged.decided_twice, 1U);
  EXPECT_EQ(judged.old_terms, 1U);
  EXPECT_THAT(judged.reasons,
              ElementsAre("1 windows were decided twice in a term", "1 windows were decided in an old term"));
}

TEST_F(AVerdict, TakesNoOffenceAtARowThatAnOldLeaderWroteLate) {
  rows_.push_back(window(5, 20));
  rows_.push_back(window(4, 19));
  EXPECT_EQ(judge_all().old_terms, 0U);
  rows_.push_back(window(4, 21));
  EXPECT_EQ(judge_all().old_terms, 1U);
}

TEST_F(AVerdict, FindsTwoLeadersOfATerm) {
  for (const auto& [host, term] : {std::pair("a", "term 3"), std::pair("b", "term 4"), std::pair("c", "term 4")})
    rows_.push_back({0, ledger::event{ledger::event_kind::leader, host, term}});
  EXPECT_EQ(judge_all().two_leaders, 1U);
}

TEST_F(AVerdict, TellsWhetherTheDecisionsAreLinearisable) {
  EXPECT_THAT(to_text(judge_all()),
              HasSubstr("3 decisions, 0 reports of what was in force, 0 decisions in no row: lin"));
  messages::window_report early{.host = "w1", .generation = 1, .window = 1, .decision = {2, 9}};
  early.training.steps = 10;
  messages::window_report later = early;
  later.first_step = 10;
  later.decision = {1, 1};
  rows_.push_back({0, ledger::window{.key = {2, 4}, .generation = 1, .workers = {{.report = early}}}});
  rows_.push_back({0, ledger::window{.key = {2, 5}, .generation = 1, .workers = {{.report = later}}}});
  const auto judged = judge_all();
  EXPECT_THAT(judged.reasons, ElementsAre("the decisions are not linearisable: generation 1: after step 20 w1 has "
                                          "window 1 of term 1 in force, and window 9 of term 2 was before"));
  EXPECT_THAT(to_text(judged), HasSubstr("NOT LINEARISABLE"));
  const auto object = nlohmann::json::parse(to_json(judged, plan_, records_));
  EXPECT_EQ(object["history"]["reads"], 2);
  EXPECT_EQ(object["history"]["unwritten"], 1);
}

TEST_F(AVerdict, HoldsTimesAndGrowthAgainstTheirLimits) {
  plan_.limits = {.detect_seconds = 0.1, .resume_seconds = 0.4, .recover_seconds = 2, .memory_growth_mib = 1};
  figures_.growth = {{.host = "w0", .faults = 200, .memory_mib = 2.5},
                     {.host = "w1", .faults = 20, .memory_mib = 0.9},
                     {.host = "w2", .faults = 2, .memory_mib = 9}};
  const auto reasons = judge_all().reasons;
  ASSERT_EQ(reasons.size(), 4U);
  EXPECT_THAT(reasons[0], HasSubstr("the slowest detection took 0.20 s; 0.10 s are allowed"));
  EXPECT_THAT(reasons[1], HasSubstr("going on (p99) took 0.50 s"));
  EXPECT_THAT(reasons[2], HasSubstr("the slowest recovery took 3.00 s"));
  EXPECT_THAT(reasons[3], HasSubstr("w0 grew by 2.5 MiB in 200 faults"));
}

TEST_F(AVerdict, HoldsTheAccuracyAgainstTheUnharmedRun) {
  figures_.final_accuracy = 0.8;
  EXPECT_THAT(judge_all().reasons, ElementsAre(HasSubstr("the final accuracy is 80.00 %, 86.00 % without faults")));
  figures_.unharmed_accuracy = -1;
  EXPECT_TRUE(judge_all().clean) << "not compared";
}

TEST_F(AVerdict, IsNotCleanWithoutAFaultOrWithAFailedRun) {
  records_.clear();
  figures_.succeeded = false;
  figures_.reason = "host w1 died";
  EXPECT_THAT(judge_all().reasons, ElementsAre("the run failed: host w1 died", "no fault began before the run ended"));
}

TEST_F(AVerdict, TellsSamplesThatWereDroppedFromTheAccount) {
  EXPECT_THAT(to_text(judge_all()), HasSubstr("samples dropped: unknown"));
  figures_.samples_dropped = figures_.samples_repeated = 0;
  EXPECT_TRUE(judge_all().clean);
  EXPECT_THAT(to_text(judge_all()), HasSubstr("0 samples dropped, 0 trained twice"));
  figures_.samples_dropped = 64;
  EXPECT_THAT(judge_all().reasons, ElementsAre("64 samples were dropped"));
  EXPECT_EQ(nlohmann::json::parse(to_json(judge_all(), plan_, records_))["samples_dropped"], 64);
}

TEST_F(AVerdict, NamesWhatLossesLeftUnapplied) {
  figures_.unapplied_by_loss = 3;
  figures_.losses = {{"arbitrator", 1}, {"worker", 2}};
  EXPECT_TRUE(judge_all().clean) << "they are accounted for";
  EXPECT_THAT(to_text(judge_all()),
              HasSubstr("unapplied by a loss: 3 decisions, on their way when what ended was: arbitrator 1, worker 2"));
}

TEST_F(AVerdict, OfAnInterruptedRunIsOfWhatHasHappened) {
  figures_.interrupted = true;
  figures_.succeeded = figures_.plan_done = false;
  figures_.end_seconds = 21;
  records_[1].resumed_seconds = records_[1].recovered_seconds = -1; // began at 20 s
  auto judged = judge_all();
  EXPECT_FALSE(judged.clean);
  EXPECT_THAT(judged.reasons, IsEmpty()) << "the second fault has had no time";
  EXPECT_THAT(to_text(judged), HasSubstr("verdict: INTERRUPTED, clean so far"));
  EXPECT_EQ(nlohmann::json::parse(to_json(judged, plan_, records_))["interrupted"], true);
  figures_.end_seconds = 200;
  judged = judge_all();
  EXPECT_THAT(judged.reasons, ElementsAre("1 faults were not recovered from in time"));
  EXPECT_THAT(to_text(judged), HasSubstr("verdict: INTERRUPTED, NOT CLEAN so far"));
}

TEST_F(AVerdict, IsJsonWithEveryFault) {
  records_[0].detected_seconds = -1;
  const auto object = nlohmann::json::parse(to_json(judge_all(), plan_, records_));
  EXPECT_EQ(object["clean"], true);
  EXPECT_EQ(object["kinds"]["kill"]["injected"], 2);
  EXPECT_EQ(object["all"]["detection_seconds"]["count"], 1);
  EXPECT_EQ(object["injected"].size(), 2U);
  EXPECT_TRUE(object["injected"][0]["detected_seconds"].is_null());
  EXPECT_EQ(object["injected"][1]["evidence"], "signal 9");
}

} // namespace
} // namespace dynamix::faults
