#include "ledger/explanation.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dynamix::node {
namespace {

using namespace ledger;
using namespace testing;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string text_of(std::uint64_t window, const std::string& worker = "") {
  std::string error;
  const auto explanation = explain(sample_rows(), window, worker, error);
  EXPECT_EQ(error, "");
  return to_text(explanation);
}

TEST(Explanation, TellsWhatWasSeenChosenAndEarned) {
  const auto text = text_of(1, "ben");
  EXPECT_THAT(text, HasSubstr("Window 1 of cluster pair, decided by ppo version 1 (term 1, generation 1)"));
  EXPECT_THAT(text, HasSubstr("ben (rank 1)\n"));
  EXPECT_THAT(text, HasSubstr("It chose +25 with probability 0.25, expecting a return of 1.500. "
                              "Probabilities: -25 0.25, 0 0.50, +25 0.25."));
  EXPECT_THAT(text, HasSubstr("Batch 64 -> 39: the policy drew +25\n"));
  EXPECT_THAT(
      text, HasSubstr("It came into force in window 3, which earned 0.350 = accuracy 0.500 + gain 0.100 - time 0.200 - "
                      "batch 0.050 - noise 0.000. Computing took "));
  EXPECT_THAT(text, Not(HasSubstr("ada (rank")));
}

TEST(Explanation, TellsTheReasonOfAPolicyWithoutStatesAndActions) {
  auto rows = sample_rows();
  std::get<ledger::start>(rows[0].entry).policy = "lb-bsp";
  auto& row = std::get<ledger::window>(rows[2].entry).workers[0];
  row.state.clear();
  row.probabilities.clear();
  row.action = -1;
  row.reason = "computes 3200 samples/s of 4267 in all: 75 % of 128";
  std::string error;
  const auto explanation = explain(rows, 1, "ada", error);
  EXPECT_THAT(to_text(explanation),
              HasSubstr("  It saw no state: the policy lb-bsp uses none.\n  The policy lb-bsp chooses no action.\n"
                        "  Batch 64 -> 89: computes 3200 samples/s of 4267 in all: 75 % of 128\n"));
  const auto array = nlohmann::json::parse(to_json(explanation));
  EXPECT_TRUE(array[0]["action"].is_null());
  EXPECT_TRUE(array[0]["state"].empty());
}

/// The first window as `change` leaves ada's row.
template <class Change>
window_explanation changed(Change change) {
  auto rows = sample_rows();
  change(std::get<ledger::window>(rows[2].entry).workers[0]);
  std::string error;
  return explain(rows, 1, "ada", error);
}

TEST(Explanation, ShowsWhatTheGuardPutInThePlaceOfAProposal) {
  const auto explanation = changed([](auto& row) {
    row.action = -1;
    row.proposed_batch = 300;
    row.intervention = "slower than goodput";
    row.reason = "guard: the policy's batch sizes promise 9 % less";
  });
  EXPECT_THAT(to_text(explanation),
              HasSubstr("  The action that it chose was not taken. Probabilities: -25 0.25, 0 0.50, +25 0.25.\n"
                        "  The guard overrode the policy (slower than goodput); proposed was 300.\n"
                        "  Batch 64 -> 89: guard: the policy's batch sizes promise 9 % less\n"));
  const auto object = nlohmann::json::parse(to_json(explanation))[0];
  EXPECT_EQ(object["proposed_batch"], 300);
  EXPECT_EQ(object["decided_batch"], 89);
  EXPECT_EQ(object["intervention"], "slower than goodput");
}

TEST(Explanation, ShowsWhatShadowModeWouldHaveSet) {
  const auto explanation = changed([](auto& row) {
    row.action = -1;
    row.proposed_batch = 128;
    row.decided_batch = 64;
    row.reason = "shadow: would set 128: action +25";
  });
  EXPECT_THAT(to_text(explanation), HasSubstr("  It wanted 128, and in shadow mode nothing is changed.\n"
                                              "  Batch 64 -> 64: shadow: would set 128: action +25\n"));
}

/// The plan looks at some global batches only. One run's "at best" stood below "as decided".
TEST(Explanation, CallsNothingTheBestThatIsWorseThanWhatWasDecided) {
  auto rows = sample_rows();
  auto& predicted = std::get<ledger::window>(rows[2].entry).predicted;
  predicted.decided = {.total = 128, .slowest_seconds = 0.01, .goodput = 1000};
  predicted.assigned = {.total = 128, .slowest_seconds = 0.02, .goodput = 900};
  predicted.planned = {.total = 120, .slowest_seconds = 0.01, .goodput = 1100};
  std::string error;
  EXPECT_THAT(to_text(explain(rows, 1, "", error)), HasSubstr("; at best 1,100 useful samples/s"));
  predicted.planned.goodput = 990;
  const auto text = to_text(explain(rows, 1, "", error));
  EXPECT_THAT(text, HasSubstr("; the plan knows of nothing better. Of a step"));
  EXPECT_THAT(text, Not(HasSubstr("at best")));
}

TEST(Explanation, TellsTheRewardByWhatItIsMadeOf) {
  const auto explanation = changed([](auto& row) { row.reward.total = row.reward.progress = -1; });
  EXPECT_THAT(to_text(explanation), HasSubstr("Batch 64 was in force, and earned -1.000 = log2 of its goodput over "
                                              "the best that was to be had, 50.0 %.\n"));
}

TEST(Explanation, ShowsNeitherAccuracyNorLossOfAScriptThatTellsNone) {
  const auto told = [](double accuracy, double loss) {
    return to_text(changed([&](auto& row) {
      row.report.training.accuracy = accuracy;
      row.report.training.loss = loss;
    }));
  };
  EXPECT_THAT(told(0, 0), HasSubstr("10 steps with 640 samples; a step of "));
  EXPECT_THAT(told(0.5, 0.693), HasSubstr("10 steps with 640 samples, accuracy 50.0 %, loss 0.693; a step of "));
}

/// The first window, in which ben became slower and work moved to ada.
window_explanation moved(const char* policy) {
  auto rows = sample_rows();
  std::get<ledger::start>(rows[0].entry).policy = policy;
  auto& workers = std::get<ledger::window>(rows[2].entry).workers;
  workers[0].report.balance = {.moves = 3, .moved_samples = 41.6};
  workers[1].report.balance = {.moves = 3, .moved_samples = -41.6, .changes = 1, .newest_change = 3.02};
  std::string error;
  return explain(rows, 1, "ben", error);
}

TEST(Explanation, TellsWhoSharesCoresSoThatDecisionsAloneMoveItsShare) {
  auto rows = sample_rows();
  for (auto& worker : std::get<ledger::window>(rows[2].entry).workers)
    worker.report.balance = {.shared_cpus = 2, .shared_demand = 3.62};
  std::string error;
  EXPECT_THAT(to_text(explain(rows, 1, "", error)),
              HasSubstr("Shares cores with other workers, so that its share followed decisions alone: ada (2 CPUs, of "
                        "which 3.6 would be busy), ben (2 CPUs, of which 3.6 would be busy).\n"));
}

TEST(Explanation, TellsWhoMovedWorkToWhomAndWhy) {
  const auto text = to_text(moved("ppo"));
  EXPECT_THAT(text,
              HasSubstr("The workers moved samples after 3 steps: more samples for ada (42), fewer for ben (42).\n"
                        "Why: ben found its speed changed: a step then took 3.02 times as long as before.\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "  The workers moved samples after 3 steps of the window: it computed 42 samples less than with the batch "
          "size that the window before ended with.\n"));
}

TEST(Explanation, TellsThatNobodyDecidesWhereWorkersChoose) {
  const auto text = to_text(moved("stigmergic"));
  EXPECT_THAT(text,
              HasSubstr("Window 1 of cluster pair, where workers share by their paces and nobody decides (term 1, "));
  EXPECT_THAT(text,
              HasSubstr("The workers moved samples after 3 steps: more samples for ada (42), fewer for ben (42).\n"
                        "Why: ben found its speed changed: a step then took 3.02 times as long as before.\n"));
  EXPECT_THAT(text,
              HasSubstr("it computed 42 samples less than with the batch size that the window before ended with."));
  EXPECT_THAT(text, HasSubstr("  The workers choose at every step, by what all say of their paces; "
                              "39 stood at the window's end.\n"));
  for (const char* wrong : {"than decided", "It chose", "Predicted", "came into force"})
    EXPECT_THAT(text, Not(HasSubstr(wrong)));
}

TEST(Explanation, NamesTheActionsOfAPolicyThatVotes) {
  auto rows = sample_rows();
  std::get<ledger::start>(rows[0].entry).scales = {85, 100};
  auto& row = std::get<ledger::window>(rows[2].entry).workers[0];
  row.probabilities = {0.1F, 0.1F, 0.1F, 0.2F, 0.3F, 0.2F};
  row.action = 4;
  std::string error;
  EXPECT_THAT(to_text(explain(rows, 1, "ada", error)),
              HasSubstr("It chose 100 % newest with probability 0.30, expecting a return of 1.500. Probabilities: "
                        "85 % average 0.10, 85 % newest 0.10, 85 % cautious 0.10, 100 % average 0.20,"));
}

TEST(Explanation, MarksFieldsThatWereNotMeasured) {
  const auto text = text_of(1, "ada");
  EXPECT_THAT(text, HasSubstr("relative_throughput  0.000  masked"));
  EXPECT_THAT(text, Not(HasSubstr("accuracy             0.250  masked")));
}

TEST(Explanation, SaysByWhatAHostMeasured) {
  const auto explanation = changed([](auto& row) { row.report.network.source = messages::signal_source::ebpf; });
  EXPECT_THAT(to_text(explanation), HasSubstr("its host's sockets, by eBPF"));
  messages::window_report report;
  EXPECT_EQ(source_of("cpu_time_ratio", report), "its host's kernel") << "an older run does not say";
  report.system.source = messages::signal_source::unprivileged;
  EXPECT_EQ(source_of("cpu_time_ratio", report), "its host's kernel, by procfs");
}

TEST(Explanation, BeginsWithASentenceOfTheNewestDecision) {
  std::string error;
  const auto explanation = explain(sample_rows(), 0, "", error);
  EXPECT_EQ(explanation.window.key.window, 2U) << "nothing was decided on the third";
  const auto text = to_text(explanation, explanation_detail::summary);
  EXPECT_THAT(text, StartsWith("ben computes "));
  EXPECT_THAT(text, HasSubstr("\n\nWindow 2 of cluster pair, decided by ppo"));
  EXPECT_THAT(text, HasSubstr("worker  batch"));
  EXPECT_THAT(text, Not(HasSubstr("What the policy saw")));
  const auto one = to_text(explain(sample_rows(), 0, "ben", error), explanation_detail::summary);
  EXPECT_THAT(one, HasSubstr("ben (rank 1)\n"));
  EXPECT_THAT(one, Not(HasSubstr("What the policy saw")));
}

TEST(Explanation, HasAColumnOfWhatMemoryHoldsWhereAScriptSaysIt) {
  auto rows = sample_rows();
  std::get<ledger::window>(rows[2].entry).workers[0].report.highest_batch = 90;
  std::string error;
  const auto said = explain(rows, 1, "", error);
  const auto text = to_text(said, explanation_detail::summary);
  EXPECT_THAT(text, HasSubstr("worker  batch     limit"));
  EXPECT_THAT(text, ContainsRegex("ada     64 -> [0-9]+ +90 "));
  EXPECT_THAT(text, ContainsRegex("ben     64 -> [0-9]+ +- "));
  EXPECT_THAT(to_text(said), HasSubstr("  It takes at most 90, by its script or its memory.\n"));
  const auto array = nlohmann::json::parse(to_json(said));
  EXPECT_EQ(array[0]["highest_batch"], 90);
  EXPECT_TRUE(array[1]["highest_batch"].is_null());
  EXPECT_THAT(to_text(explain(sample_rows(), 0, "", error), explanation_detail::summary), Not(HasSubstr("limit")));
}

/// Of a step's 200 ms its report has 200 for computing, a quarter of which was waiting: there is one figure of that
/// name.
TEST(Explanation, CallsNothingComputingThatWaitedForACpu) {
  auto rows = sample_rows();
  std::get<ledger::window>(rows[2].entry).workers[1].time = {.compute_seconds = 0.15, .cpu_wait_seconds = 0.05};
  std::string error;
  const auto text = to_text(explain(rows, 1, "ben", error), explanation_detail::summary);
  EXPECT_THAT(text, HasSubstr("; a step of 200.0 ms: 150.0 ms computing, 50.0 ms without a CPU, "));
  EXPECT_THAT(text, Not(HasSubstr("200.0 ms computing")));
  EXPECT_THAT(text, HasSubstr(" Computing took 200.0 ms, waits for a CPU included.\n"));
}

TEST(Explanation, ShowsNoTimeWhereNoStepWasLookedAt) {
  auto rows = sample_rows();
  for (const std::size_t row : {2U, 4U}) { // the first window, and the one in which its decision came into force
    auto& workers = std::get<ledger::window>(rows[row].entry).workers;
    for (auto& worker : workers)
      if (auto& training = worker.report.training; row == 4 || worker.report.host == "ada") {
        training.untimed_steps = training.steps;
        training.iteration_seconds = training.compute_seconds = 0;
      } else {
        worker.time = {.compute_seconds = 0.15, .cpu_wait_seconds = 0.05};
      }
  }
  std::string error;
  const auto said = explain(rows, 1, "", error);
  const auto text = to_text(said, explanation_detail::summary);
  EXPECT_THAT(text, ContainsRegex("ada     64 -> 89 +- +- +- +- +- +-\n"));
  EXPECT_THAT(text, ContainsRegex("ben     64 -> 39 +200.0 +150.0 +50.0 "));
  EXPECT_THAT(text, HasSubstr("128 samples per step, whose time is not known; "));
  EXPECT_THAT(to_text(said), HasSubstr("; how long a step took is not known.\n"));
  EXPECT_THAT(to_text(said), Not(HasSubstr("Computing took")));
  const auto ben = nlohmann::json::parse(to_json(said))[1];
  EXPECT_TRUE(ben["effect"]["compute_seconds"].is_null());
  EXPECT_TRUE(ben["effect"]["cluster"]["step_seconds"].is_null());
}

TEST(Explanation, CoversAllWorkersUnlessOneIsNamed) {
  const auto text = text_of(2);
  EXPECT_THAT(text, HasSubstr("ada (rank 0)"));
  EXPECT_THAT(text, HasSubstr("ben (rank 1)"));
}

TEST(Explanation, SaysWhenADecisionNeverCameIntoForce) {
  EXPECT_THAT(text_of(2), HasSubstr("It never came into force in a recorded window"));
}

TEST(Explanation, SaysWhenNothingWasDecided) {
  EXPECT_THAT(text_of(3), HasSubstr("Nothing was decided: training ended with this window."));
}

TEST(Explanation, NamesTheWindowsAndWorkersThatThereAre) {
  std::string error;
  explain(sample_rows(), 9, "", error);
  EXPECT_EQ(error, "the ledger holds no window 9; it has windows in [1, 3]");
  explain(sample_rows(), 1, "eve", error);
  EXPECT_EQ(error, "window 1 has no worker \"eve\"; it has ada, ben");
  explain({}, 1, "", error);
  EXPECT_EQ(error, "the ledger holds no window yet");
}

TEST(Explanation, TakesTheLastLifeOfAWindowThatWasDecidedTwice) {
  auto rows = sample_rows();
  auto second = sample_rows();
  auto& decided = std::get<ledger::window>(second[2].entry);
  decided.workers[0].decided_batch = 77;
  std::get<ledger::window>(second[4].entry).workers[0].reward.total = 9;
  rows.insert(rows.end(), second.begin(), second.end());
  std::string error;
  const auto explanation = explain(rows, 1, "ada", error);
  ASSERT_EQ(explanation.workers.size(), 1U);
  EXPECT_EQ(explanation.workers[0].row.decided_batch, 77U);
  ASSERT_TRUE(explanation.workers[0].effect);
  EXPECT_EQ(explanation.workers[0].effect->reward.total, 9);
}

TEST(Explanation, TellsHowTheGenerationExchangesGradientsAndWhy) {
  const auto chosen = [](const std::string& text) {
    return ledger::row{.at_seconds = 1, .entry = ledger::event{ledger::event_kind::exchange, "", text}};
  };
  auto rows = sample_rows();
  const auto first =
      std::ranges::find_if(rows, [](const auto& row) { return std::holds_alternative<ledger::window>(row.entry); });
  rows.insert(first, {chosen("gradients by servers: of an earlier generation"),
                      {.at_seconds = 1, .entry = ledger::generation{.generation = 2}},
                      chosen("gradients by the ring: a MB takes 2 ms"),
                      chosen("90 of 2000 rows of 16 sparse gradients by gather")});
  std::string error;
  const auto explanation = explain(rows, 1, "ada", error);
  const std::string text = to_text(explanation);
  EXPECT_THAT(text, HasSubstr("Exchange: gradients by the ring: a MB takes 2 ms.\n"
                              "Exchange: 90 of 2000 rows of 16 sparse gradients by gather.\n"));
  EXPECT_THAT(text, Not(HasSubstr("by servers")));
  const auto array = nlohmann::json::parse(to_json(explanation));
  EXPECT_EQ(array[0]["exchange"].size(), 2U);
  for (int i = 0; i < 20; ++i)
    rows.insert(rows.begin() + 5, chosen("again"));
  EXPECT_LE(explain(rows, 1, "ada", error).exchange.size(), 8U);
}

TEST(Explanation, IsAvailableAsJson) {
  std::string error;
  const auto array = nlohmann::json::parse(to_json(explain(sample_rows(), 1, "", error)));
  ASSERT_EQ(array.size(), 2U);
  const auto& ben = array[1];
  EXPECT_EQ(ben["host"], "ben");
  EXPECT_EQ(ben["action"], "+25");
  EXPECT_EQ(ben["decided_batch"], 39);
  EXPECT_EQ(ben["probabilities"]["0"], 0.5);
  EXPECT_EQ(ben["state"][0]["field"], "relative_throughput");
  EXPECT_EQ(ben["state"][0]["masked"], true);
  EXPECT_EQ(ben["effect"]["window"], 3);
}

} // namespace
} // namespace dynamix::node
