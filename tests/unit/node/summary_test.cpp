#include "cluster/places.hpp"
#include "node/reports/report.hpp"
#include "node/reports/run_records.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Summary, AddsUpARun) {
  auto records = sample_records();
  records.evaluations = {{.step = 30, .epoch = 2, .test_accuracy = 0.88}};
  const auto summary = summarise(records);
  EXPECT_TRUE(summary.succeeded);
  EXPECT_EQ(summary.reason, "epochs completed");
  EXPECT_EQ(summary.started_at, "2026-01-02T03:04:05Z");
  EXPECT_EQ(summary.steps, 30U);
  EXPECT_EQ(summary.samples, 3840U) << "a farewell counts the samples of all workers";
  EXPECT_EQ(summary.wall_seconds, 6);
  EXPECT_EQ(summary.final_accuracy, 0.88);
  EXPECT_LT(summary.seconds_to_target, 0);
  EXPECT_EQ(summary.generations, 1U);
  EXPECT_EQ(summary.restarts, 0U);
  EXPECT_EQ(summary.policy_version, 3U);
  EXPECT_DOUBLE_EQ(summary.control_fraction, 0.01);
  EXPECT_DOUBLE_EQ(summary.telemetry_fraction, 0.002);
  EXPECT_THAT(summary.warnings, IsEmpty());
}

TEST(Summary, SaysHowGradientsTravelled) {
  run_records records = sample_records();
  EXPECT_THAT(result_block(summarise(records)), HasSubstr("encrypted, between hosts that have proved who they are"));
  auto again = start_row();
  again.gradients = "without keys";
  records.add({.at_seconds = 0, .entry = again});
  records.add({.at_seconds = 0, .entry = again});
  const auto summary = summarise(records);
  EXPECT_THAT(summary.gradients, ElementsAre("encrypted", "without keys"));
  EXPECT_THAT(result_block(summary), HasSubstr("in the clear, between hosts without keys"));
  EXPECT_EQ(nlohmann::json::parse(to_json(summary))["gradients"].size(), 2U);
}

TEST(Summary, CountsDecisionsMadeAndWhatBecameOfThem) {
  const auto summary = summarise(sample_records());
  EXPECT_EQ(summary.decisions.made, 4U) << "nothing is decided on the last window";
  EXPECT_EQ(summary.decisions.applied, 2U);
  EXPECT_EQ(summary.decisions.late, 2U);
  EXPECT_EQ(summary.decisions.unapplied, 2U);
  EXPECT_EQ(summary.decisions.lost, 0U);
  EXPECT_EQ(summary.decisions.duplicated, 0U);
}

TEST(Summary, FindsLostAndDuplicatedDecisions) {
  auto records = sample_records();
  records.farewells[1].decisions = {.received = 1, .applied = 1, .duplicated = 3};
  const auto summary = summarise(records);
  EXPECT_EQ(summary.decisions.lost, 1U);
  EXPECT_EQ(summary.decisions.duplicated, 3U);
  EXPECT_THAT(summary.warnings, Contains(HasSubstr("1 decisions were lost")));
  EXPECT_THAT(summary.warnings, Contains(HasSubstr("3 decisions came twice")));
}

TEST(Summary, DoesNotCallTheDecisionsOfADeadWorkerLost) {
  auto records = sample_records();
  records.farewells.pop_back();
  const auto summary = summarise(records);
  EXPECT_EQ(summary.decisions.lost, 0U);
  EXPECT_FALSE(summary.succeeded) << "not every worker has said farewell";
}

TEST(Summary, CountsTheDecisionsOfTheLastLivesOfTheWorkers) {
  auto records = sample_records();
  auto second = sample_rows();
  second.erase(second.begin() + 2, second.begin() + 4); // windows 1 and 2: it resumes from window 2
  auto& window = std::get<ledger::window>(second.back().entry);
  window.decided = true;
  second.insert(second.begin() + 2, {0.2, ledger::event{ledger::event_kind::joined, "ben", ""}});
  records.rows.insert(records.rows.end(), second.begin(), second.end());
  for (auto& farewell : records.farewells)
    farewell.decisions = {.received = 1, .unapplied = 1};
  const auto summary = summarise(records);
  EXPECT_EQ(summary.decisions.made, 2U);
  EXPECT_EQ(summary.decisions.lost, 0U);
  EXPECT_EQ(summary.restarts, 1U);
  EXPECT_EQ(summary.generations, 2U);
  EXPECT_EQ(summary.workers[0].samples, 10U * (64 + 64 + 89)) << "window 3 was trained twice and counts once";
}

TEST(Summary, CountsReplicasThatStartTogetherAsOneStart) {
  auto records = sample_records();
  records.rows.insert(records.rows.begin(), 2, {0, start_row()});
  EXPECT_EQ(summarise(records).restarts, 0U);
  EXPECT_EQ(summarise(records).generations, 1U);
}

/// Windows 1 to 9 of two workers; what is decided on window w is in force in window w + 2.
written_run long_records() {
  auto records = sample_records();
  records.rows.resize(2);
  for (std::uint64_t window = 1; window <= 9; ++window) {
    const messages::decision_key in_force =
        window < 3 ? messages::decision_key{} : messages::decision_key{1, window - 2};
    ledger::window row{.key = {1, window}, .generation = 1, .decided = true};
    row.workers = {worker(report(0, window, 64), in_force, 64), worker(report(1, window, 64), in_force, 64)};
    records.rows.push_back({0.1 * static_cast<double>(window), row});
  }
  for (auto& farewell : records.farewells)
    farewell.decisions = {.received = 9, .applied = 9};
  return records;
}

void insert_behind_window(written_run& records, std::uint64_t window, ledger::entry entry) {
  records.rows.insert(records.rows.begin() + 2 + static_cast<std::ptrdiff_t>(window), {1, std::move(entry)});
}

TEST(Summary, NamesDecisionsThatWereOnTheirWayWhenSomethingEnded) {
  auto records = long_records();
  records.farewells[1].decisions = {.received = 8, .applied = 8};
  EXPECT_EQ(summarise(records).decisions.lost, 1U) << "nothing has ended";
  insert_behind_window(records, 9, ledger::event{ledger::event_kind::lost, "ben", ""});
  const auto decisions = summarise(records).decisions;
  EXPECT_EQ(decisions.lost, 0U);
  EXPECT_EQ(decisions.unapplied_by_loss, 1U);
  EXPECT_EQ(decisions.losses, (std::map<std::string, std::uint64_t>{{"worker", 1}}));
  const auto object = nlohmann::json::parse(to_json(summarise(records)));
  EXPECT_EQ(object["decisions"]["unapplied_by_loss_of"]["worker"], 1);
  EXPECT_THAT(result_block(summarise(records)), HasSubstr("1 unapplied by a loss"));
}

TEST(Summary, ExcusesNoDecisionBeforeOneThatWasApplied) {
  auto records = long_records();
  for (auto& farewell : records.farewells)
    farewell.decisions = {.received = 5, .applied = 5};
  insert_behind_window(records, 9, ledger::event{ledger::event_kind::lost, "ben", ""});
  const auto decisions = summarise(records).decisions;
  EXPECT_EQ(decisions.unapplied_by_loss, 2U) << "those of windows 8 and 9: that of window 7 was in force in window 9";
  EXPECT_EQ(decisions.lost, 2U + 4U)
      << "though all were made within the time in which a loss is noticed; and all of ada's";
}

TEST(Summary, KnowsWhatWasOnItsWayFromReportsThatCameLater) {
  auto records = long_records();
  records.farewells[0].decisions = records.farewells[1].decisions = {.received = 8, .applied = 8};
  insert_behind_window(records, 4,
                       start_row()); // the arbitrator's next life; what it made on window 4 was in force later
  EXPECT_EQ(summarise(records).decisions.lost, 2U);
  auto& fifth = std::get<ledger::window>(records.rows[2 + 5 + 1].entry);
  for (auto& each : fifth.workers)
    each.report.decision = {1, 3};
  EXPECT_EQ(fifth.key.window, 6U);
  EXPECT_EQ(summarise(records).decisions.losses, (std::map<std::string, std::uint64_t>{{"arbitrator", 2}}));
}

TEST(Summary, OfReplicasTakesANewLeaderAndNoMereStartForAnEnd) {
  auto records = long_records();
  records.file.arbitrator.replicas = {"ada", "ben", "carl"};
  records.farewells[0].decisions = {.received = 8, .applied = 8};
  insert_behind_window(records, 9, start_row());
  EXPECT_EQ(summarise(records).decisions.lost, 1U);
  insert_behind_window(records, 9, ledger::event{ledger::event_kind::leader, "ben", "Raft term 2"});
  EXPECT_EQ(summarise(records).decisions.lost, 0U);
  EXPECT_EQ(summarise(records).decisions.losses.at("arbitrator"), 1U);
}

TEST(Summary, TellsGenerationsAndWhatTheirEndsCost) {
  auto records = sample_records();
  for (const std::uint64_t generation : {1, 2, 3})
    records.rows.push_back({1.0 * static_cast<double>(generation), ledger::generation{.generation = generation,
                                                                                      .members = {"ada", "ben"},
                                                                                      .source = "ada",
                                                                                      .reason = "ben is lost",
                                                                                      .steps = 10,
                                                                                      .steps_lost = generation - 1}});
  const auto summary = summarise(records, {.restarts = {{"ben", 2}}});
  EXPECT_EQ(summary.generations, 3U);
  EXPECT_EQ(summary.steps_lost, 3U);
  EXPECT_EQ(summary.restarts, 2U);
  const auto object = nlohmann::json::parse(to_json(summary));
  EXPECT_EQ(object["steps_lost"], 3);
  EXPECT_EQ(object["restarts_by_host"]["ben"], 2);
}

TEST(Summary, GoesWithoutTheFarewellOfAHostThatWasGivenUp) {
  auto records = sample_records();
  records.farewells[1].succeeded = false;
  records.farewells[1].reason = "lost contact";
  EXPECT_FALSE(summarise(records).succeeded);
  EXPECT_TRUE(summarise(records, {.given_up = {"ben"}}).succeeded);
  EXPECT_EQ(summarise(records, {.given_up = {"ben"}}).reason, "epochs completed");
  records.farewells.pop_back();
  EXPECT_TRUE(summarise(records, {.given_up = {"ben"}}).succeeded);
}

TEST(Summary, DescribesEachWorker) {
  const auto summary = summarise(sample_records());
  ASSERT_EQ(summary.workers.size(), 2U);
  const auto& ben = summary.workers[1];
  EXPECT_EQ(ben.host, "ben");
  EXPECT_EQ(ben.compute_slowdown, 2);
  EXPECT_EQ(ben.first_batch, 64U);
  EXPECT_EQ(ben.last_batch, 39U);
  EXPECT_EQ(ben.samples, 1670U);
  EXPECT_DOUBLE_EQ(ben.mean_batch, 1670.0 / 30);
  EXPECT_DOUBLE_EQ(ben.share, 1670.0 / 3840);
  EXPECT_DOUBLE_EQ(ben.step_seconds, 0.2);
  EXPECT_DOUBLE_EQ(ben.compute_seconds, 0.2);
}

TEST(Summary, AddsUpWhereTheStepsWent) {
  auto records = sample_records();
  double steps = 0;
  for (auto& row : records.rows)
    if (auto* window = std::get_if<ledger::window>(&row.entry)) {
      for (auto& worker : window->workers)
        worker.time = worker.report.host == "ada"
                          ? policy::time_split{.compute_seconds = 0.1, .barrier_seconds = 0.1}
                          : policy::time_split{.compute_seconds = 0.15, .cpu_wait_seconds = 0.05};
      steps += window->workers[0].report.training.steps;
    }
  auto stale = std::get<ledger::window>(records.rows.back().entry);
  for (auto& worker : stale.workers) {
    worker.stale = true;
    worker.time = {.other_seconds = 1000};
  }
  records.rows.push_back({99, stale});
  const auto summary = summarise(records);
  EXPECT_DOUBLE_EQ(summary.workers[0].time.barrier_seconds, 0.1);
  EXPECT_DOUBLE_EQ(summary.workers[1].time.cpu_wait_seconds, 0.05);
  EXPECT_EQ(summary.workers[0].time.other_seconds, 0);
  EXPECT_NEAR(summary.attribution.compute_seconds, steps * 0.25, 1e-9);
  EXPECT_NEAR(summary.attribution.barrier_seconds, steps * 0.1, 1e-9);
  const auto object = nlohmann::json::parse(to_json(summary));
  EXPECT_NEAR(object["attribution"]["cpu_wait_seconds"].get<double>(), steps * 0.05, 1e-9);
  EXPECT_DOUBLE_EQ(object["per_worker"][1]["time"]["cpu_wait_seconds"].get<double>(), 0.05);
}

/// As `exec --observe` reports where it has not had the time to look at all steps.
void look_at(messages::training_statistics& training, std::uint32_t steps, double seconds) {
  training.untimed_steps = training.steps - steps;
  training.iteration_seconds = seconds;
  training.compute_seconds = seconds / 2;
}

TEST(Summary, WeighsTimesByTheStepsThatWereLookedAt) {
  auto records = sample_records();
  std::uint32_t looked = 0;
  for (auto& row : records.rows)
    if (auto* window = std::get_if<ledger::window>(&row.entry)) {
      auto& worker = window->workers[1];
      look_at(worker.report.training, looked, looked == 0 ? 0 : 0.1 * looked); // none, 1 of 0.1 s, 2 of 0.2 s
      if (looked > 0)
        worker.time = {
            .compute_seconds = 0.05 * looked - 0.03, .cpu_wait_seconds = 0.03, .other_seconds = 0.05 * looked};
      worker.report.system.valid = looked == 1;
      look_at(window->workers[0].report.training, 0, 0);
      ++looked;
    }
  const auto summary = summarise(records);
  EXPECT_DOUBLE_EQ(summary.workers[1].step_seconds, (0.1 + 2 * 0.2) / 3);
  EXPECT_DOUBLE_EQ(summary.workers[1].compute_seconds, (0.05 + 2 * 0.1) / 3);
  EXPECT_DOUBLE_EQ(summary.workers[1].time.cpu_wait_seconds, 0.03);
  ASSERT_TRUE(summary.workers[1].cpu_wait_share);
  EXPECT_NEAR(*summary.workers[1].cpu_wait_share, 0.03 / 0.05, 1e-9) << "of the window that measured it";
  EXPECT_FALSE(summary.workers[0].cpu_wait_share);
  EXPECT_GT(summary.workers[0].mean_batch, 0) << "samples are known of all steps";
  const auto object = nlohmann::json::parse(to_json(summary));
  for (const auto* name : {"step_seconds", "compute_seconds", "exchange_seconds", "data_seconds", "time"}) {
    EXPECT_TRUE(object["per_worker"][0][name].is_null()) << name;
    EXPECT_FALSE(object["per_worker"][1][name].is_null()) << name;
  }
  EXPECT_THAT(workers_table(summary), ::testing::ContainsRegex("ada .* - +- +- +-\n"));
}

TEST(Summary, TakesTheReasonOfAFailedWorker) {
  auto records = sample_records();
  records.farewells[1].succeeded = false;
  records.farewells[1].reason = "lost contact with a worker";
  const auto summary = summarise(records);
  EXPECT_FALSE(summary.succeeded);
  EXPECT_EQ(summary.reason, "lost contact with a worker");
  EXPECT_THAT(result_block(summary), HasSubstr("FAILED: lost contact with a worker"));
}

TEST(Summary, KnowsAFailureWhateverItsReasonSays) {
  auto records = sample_records();
  records.farewells[1].succeeded = false;
  records.farewells[1].reason = ledger::no_farewell;
  EXPECT_THAT(result_block(summarise(records)), HasSubstr("FAILED: it goes on"));
}

TEST(Summary, SaysThatThereIsNothingBeforeTheFirstWindow) {
  const auto summary = summarise(run_records(pair_file()));
  EXPECT_FALSE(summary.succeeded);
  EXPECT_EQ(summary.reason, "it goes on, or was cut short: no worker has said farewell");
  EXPECT_EQ(summary.samples, 0U);
}

TEST(Summary, TellsOfARunThatGoesOnAsFarAsItsWindowsDo) {
  auto records = sample_records();
  records.farewells.clear();
  records.file.training.target_accuracy = 0.8;
  records.evaluations = {{.step = 10, .epoch = 1, .elapsed_seconds = 3, .test_accuracy = 0.7},
                         {.step = 20, .epoch = 1, .elapsed_seconds = 4, .test_accuracy = 0.82},
                         {.step = 30, .epoch = 2, .elapsed_seconds = 6, .test_accuracy = 0.85}};
  for (std::size_t row = 2; row < records.rows.size(); ++row)
    for (auto& worker : std::get<ledger::window>(records.rows[row].entry).workers) {
      worker.report.first_step = 10 * (row - 2);
      worker.report.epoch = row - 2;
      worker.report.control_seconds = 0.02;
    }
  const auto summary = summarise(records);
  EXPECT_FALSE(summary.succeeded);
  EXPECT_EQ(summary.steps, 30U);
  EXPECT_EQ(summary.epochs, 2U);
  EXPECT_EQ(summary.seconds_to_target, 4) << "the first evaluation at the target";
  EXPECT_NEAR(summary.control_fraction, 0.01, 1e-9) << "0.02 s of each window's 2 s";
  const auto text = result_block(summary);
  EXPECT_THAT(text, HasSubstr("reached after 4 s"));
  EXPECT_THAT(text, HasSubstr("4 made; how many were applied is not known"));
  EXPECT_THAT(text, Not(HasSubstr("FAILED")));
  const auto object = nlohmann::json::parse(to_json(summary));
  EXPECT_TRUE(object["decisions"]["applied"].is_null());
  EXPECT_EQ(object["decisions"]["made"], 4);
}

TEST(Summary, CountsTheWindowsInWhichTheGuardSteppedIn) {
  auto records = sample_records();
  for (auto& worker : std::get<ledger::window>(records.rows[3].entry).workers)
    worker.intervention = "slower than goodput";
  const auto summary = summarise(records);
  EXPECT_EQ(summary.decisions.windows, 2U);
  EXPECT_EQ(summary.decisions.interventions, 1U);
  EXPECT_THAT(result_block(summary), HasSubstr("overrode the policy in 1 of 2 windows"));
  EXPECT_EQ(nlohmann::json::parse(to_json(summary))["decisions"]["interventions"], 1);
  EXPECT_THAT(result_block(summarise(sample_records())), Not(HasSubstr("overrode")));
}

TEST(SummaryJson, HasEveryPromisedKey) {
  const auto object = nlohmann::json::parse(to_json(summarise(sample_records())));
  for (const char* key :
       {"cluster", "policy", "seed", "workers", "wall_seconds", "steps", "samples", "epochs", "final_accuracy",
        "target_accuracy", "seconds_to_target", "decisions", "generations", "restarts", "overhead", "warnings"})
    EXPECT_TRUE(object.contains(key)) << key;
  for (const char* key : {"made", "applied", "late", "stale_refused", "lost", "duplicated", "windows", "interventions"})
    EXPECT_TRUE(object["decisions"].contains(key)) << key;
  EXPECT_TRUE(object["overhead"].contains("control_fraction"));
  EXPECT_TRUE(object["overhead"].contains("telemetry_fraction"));
  EXPECT_EQ(object["workers"], 2);
  EXPECT_TRUE(object["seconds_to_target"].is_null()) << "never reached";
  EXPECT_EQ(object["per_worker"][1]["last_batch"], 39);
}

TEST(EpochsTable, HasALineForEachEvaluation) {
  EXPECT_EQ(ledger::epochs_csv({{.step = 30,
                                 .epoch = 1,
                                 .samples = 10'000,
                                 .elapsed_seconds = 2.5,
                                 .train_loss = 0.5,
                                 .test_loss = 0.25,
                                 .test_accuracy = 0.875,
                                 .global_batch = 128,
                                 .learning_rate = 0.05},
                                {.test_loss = -2}}),
            "epoch,step,samples,seconds,train_loss,test_loss,test_accuracy,global_batch,learning_rate\n"
            "1,30,10000,2.5,0.5,0.25,0.875,128,0.05\n"
            "0,0,0,0,nan,-2,0,0,0\n");
}

TEST(Report, ShowsResultEvaluationsWorkersAndBatchSizes) {
  auto records = sample_records();
  for (std::uint64_t epoch = 1; epoch <= 100; ++epoch)
    records.evaluations.push_back({.step = epoch, .epoch = epoch, .test_accuracy = 0.5});
  const auto text = report_text(records, summarise(records));
  EXPECT_THAT(text, HasSubstr("4 made, 2 applied (2 late), 0 superseded, 2 unapplied, 0 stale, 0 lost, 0 duplicated"));
  EXPECT_THAT(text, HasSubstr("ben           2.0  64 -> 39"));
  EXPECT_THAT(text, HasSubstr("\n    100      0.0")) << "the last of many evaluations is shown";
  EXPECT_THAT(text, HasSubstr("ada           3      64       89  ▂▂▃\n"));
}

TEST(Summary, NamesGuestsWithTheirRanks) {
  auto file = pair_file();
  file.membership = cluster::membership_kind::open;
  file.workers_max = 8;
  ledger::run_records records(file);
  ledger::window window{.key = {1, 1}};
  auto of = report(5, 1, 64); // whoever had the places before it was gone before the first window
  of.host = "guest";
  window.workers = {worker(report(0, 1, 64), {}, 64), worker(of, {}, 64)};
  records.run.add({.entry = window});
  records.file = cluster::with_guests(records.run.file(), {"ada", "ben", "+2", "+3", "+4", "guest"});
  const auto summary = summarise(records);
  ASSERT_EQ(summary.workers.size(), 3U);
  EXPECT_EQ(summary.workers[1].rank, 1U);
  EXPECT_EQ(summary.workers[2].host, "guest");
  EXPECT_EQ(summary.workers[2].rank, 5U);
}

} // namespace
} // namespace dynamix::node
