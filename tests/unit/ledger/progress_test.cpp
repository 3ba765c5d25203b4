#include "ledger/codec.hpp"
#include "ledger/file.hpp"
#include "ledger/progress.hpp"
#include "ledger/segments.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

namespace dynamix::node {
namespace {

using namespace ledger;
using namespace testing;
using ::testing::ElementsAre;
using ::testing::Pair;

progress after(const std::vector<ledger::row>& rows) {
  progress now;
  for (const auto& row : rows)
    now.add(row);
  return now;
}

TEST(Progress, TellsWhoIsAwaitedBeforeTheFirstWindow) {
  auto rows = sample_rows();
  rows.resize(2);
  EXPECT_EQ(progress_line(progress{}), "waiting for the arbitrator");
  EXPECT_EQ(progress_line(after(rows)), "waiting for workers: 1 of 2 is here, ben is missing");
  rows.push_back({0, ledger::event{ledger::event_kind::warning, "ben", "its disk is full"}});
  EXPECT_EQ(progress_line(after(rows)),
            "waiting for workers: 1 of 2 is here, ben is missing  (ben warning: its disk is full)");
  rows.pop_back();
  rows.push_back({0, ledger::event{ledger::event_kind::joined, "ben", "all workers are here"}});
  rows.push_back({0, ledger::generation{.generation = 1}});
  EXPECT_EQ(progress_line(after(rows)), "the workers load data and connect to each other");
  rows.push_back({0, ledger::event{ledger::event_kind::resumed, "ben", "generation 1 has completed step 1"}});
  EXPECT_EQ(progress_line(after(rows)), "training the first window");
}

TEST(Progress, ComputesSpeedAndEtaFromSamples) {
  const auto now = after(sample_rows());
  // 1000 samples of all workers each 2 s; 3000 of 20,000 are done.
  EXPECT_DOUBLE_EQ(now.samples_done(), 3000);
  EXPECT_DOUBLE_EQ(now.samples_per_second(), 500);
  EXPECT_DOUBLE_EQ(now.eta_seconds(), 34);
  EXPECT_THAT(now.batches(), ElementsAre(Pair("ada", 89), Pair("ben", 39)));
  EXPECT_DOUBLE_EQ(now.batch_accuracy(), (0.5 * 890 + 0.8 * 390) / 1280);
}

TEST(Progress, ShowsEverythingOnOneLine) {
  auto rows = sample_rows();
  EXPECT_EQ(progress_line(after(rows)),
            "epoch 1/2  15 %  500 samples/s  batch accuracy 59.1 %  ETA 34 s  batch ada 89 ben 39");
  rows.push_back({7, ledger::evaluation{{.test_accuracy = 0.8768}}});
  EXPECT_EQ(progress_line(after(rows)),
            "epoch 1/2  15 %  500 samples/s  test accuracy 87.7 %  ETA 34 s  batch ada 89 ben 39");
}

/// Two epochs of 10,000 samples, the first 3,000 done at 500 per second, with a target.
std::vector<ledger::row> rows_with_target(double target) {
  auto rows = sample_rows();
  std::get<ledger::start>(rows[0].entry).target_accuracy = target;
  return rows;
}

TEST(Progress, SaysAtMostWhereATargetMayEndItBefore) {
  EXPECT_THAT(progress_line(after(rows_with_target(0.9))), ::testing::HasSubstr("ETA at most 34 s  batch"));
}

TEST(Progress, ExpectsTheTargetWhereTheErrorComesToIt) {
  auto rows = rows_with_target(0.9);
  // The test error falls as 10 / sqrt(samples): 0.1 at 10,000 samples.
  for (const double samples : {1000.0, 2000.0, 3000.0})
    rows.push_back({7, ledger::evaluation{{.samples = static_cast<std::uint64_t>(samples),
                                           .test_accuracy = 1 - 10 / std::sqrt(samples)}}});
  const auto eta = after(rows).time_to_target();
  ASSERT_TRUE(eta);
  EXPECT_NEAR(eta->soonest_seconds, 14, 1e-9) << "7,000 samples at 500 per second";
  EXPECT_NEAR(eta->latest_seconds.value_or(-1), 14, 2) << "they lie on the line: at most an evaluation later";
  EXPECT_THAT(progress_line(after(rows)), ::testing::HasSubstr("ETA at most 34 s, 90.0 % in about 14 s  batch"));
  rows[0] = rows_with_target(0.95)[0]; // 40,000 samples: the epochs end before
  EXPECT_FALSE(after(rows).time_to_target());
  rows[0] = rows_with_target(0)[0];
  EXPECT_FALSE(after(rows).time_to_target());
}

TEST(Progress, ExpectsNoTargetWhereAccuracyDoesNotRise) {
  auto rows = rows_with_target(0.9);
  for (const std::uint64_t samples : {1000, 2000, 3000})
    rows.push_back({7, ledger::evaluation{{.samples = samples, .test_accuracy = 0.5}}});
  EXPECT_FALSE(after(rows).time_to_target());
}

/// Test accuracy after each half epoch of Fashion-MNIST, up to 88 %: live runs of deployments/clusters/local-4.toml and
/// local-4-changing.toml, policies ppo and goodput, seeds 1 to 5 each.
const std::vector<std::vector<double>>& real_curves() {
  static const std::vector<std::vector<double>> curves = {
      {0.7717, 0.8222, 0.855, 0.857, 0.8669, 0.8578, 0.8659, 0.8816},
      {0.7806, 0.8412, 0.8566, 0.8604, 0.8666, 0.8743, 0.8788, 0.8834},
      {0.8032, 0.8459, 0.8626, 0.8747, 0.875, 0.8801},
      {0.7743, 0.8392, 0.8611, 0.8688, 0.8754, 0.882},
      {0.7427, 0.8261, 0.8474, 0.8659, 0.8706, 0.8754, 0.8789, 0.8786, 0.8867},
      {0.7804, 0.8445, 0.8586, 0.8634, 0.8703, 0.8768, 0.8785, 0.8851},
      {0.7647, 0.8074, 0.8485, 0.858, 0.8675, 0.873, 0.8655, 0.8849},
      {0.7866, 0.8482, 0.8592, 0.8714, 0.8763, 0.8716, 0.8773, 0.8783, 0.8823},
      {0.7856, 0.8336, 0.8596, 0.8576, 0.8706, 0.8747, 0.873, 0.8711, 0.8825},
      {0.7262, 0.8365, 0.8525, 0.8672, 0.8693, 0.8747, 0.8792, 0.8893},
      {0.784, 0.8268, 0.8555, 0.8679, 0.8701, 0.8704, 0.8702, 0.8848},
      {0.7826, 0.8341, 0.859, 0.8716, 0.8702, 0.8773, 0.8881},
      {0.7944, 0.8561, 0.8486, 0.8703, 0.8769, 0.8822},
      {0.8, 0.8443, 0.8648, 0.8681, 0.877, 0.882},
      {0.7542, 0.8367, 0.8567, 0.8379, 0.8687, 0.8794, 0.8858},
      {0.7726, 0.8318, 0.8455, 0.8667, 0.8755, 0.8687, 0.885},
      {0.7798, 0.8266, 0.8552, 0.8743, 0.8593, 0.8818},
      {0.7729, 0.8446, 0.8628, 0.8726, 0.8783, 0.8868},
      {0.7926, 0.836, 0.8554, 0.8611, 0.8673, 0.8765, 0.8772, 0.8845},
      {},
  };
  return curves;
}

/// How often the told range held, the target came before it, and behind it.
struct range_record {
  int told = 0, within = 0, sooner = 0, later = 0, open = 0;
};

/// Asks after each evaluation of the curve, of which there is one a second.
void follow(const std::vector<double>& curve, range_record& record) {
  auto start = start_row();
  start.dataset_samples = 60'000;
  start.epochs = 12;
  start.target_accuracy = 0.88;
  progress now;
  now.add({0, start});
  for (std::size_t i = 0; i + 1 < curve.size(); ++i) {
    const std::uint64_t samples = 30'000 * (i + 1);
    ledger::window window{.key = {1, i + 1}};
    window.workers = {worker(report(0, i + 1, 64), {}, 64)};
    window.workers[0].report.elapsed_seconds = static_cast<double>(i + 1);
    window.workers[0].report.epoch_samples = samples;
    now.add({0, window});
    now.add({0, ledger::evaluation{{.samples = samples, .test_accuracy = curve[i]}}});
    const auto eta = now.time_to_target();
    if (!eta)
      continue;
    const auto truth = static_cast<double>(curve.size() - 1 - i);
    ++record.told;
    record.open += eta->latest_seconds ? 0 : 1;
    ++(truth < eta->soonest_seconds - 1e-6                ? record.sooner
       : truth > eta->latest_seconds.value_or(1e9) + 1e-6 ? record.later
                                                          : record.within);
  }
}

TEST(Progress, TellsARangeThatRealRunsMostlyKeepTo) {
  range_record record;
  for (const auto& curve : real_curves())
    follow(curve, record);
  EXPECT_GT(record.told, 60);
  EXPECT_GT(10 * record.within, 7 * record.told)
      << record.sooner << " sooner, " << record.later << " later, " << record.open << " open of " << record.told;
  EXPECT_LT(4 * record.later, record.told) << "where it errs late, it errs on the pessimistic side";
  EXPECT_LT(4 * record.open, record.told);
}

TEST(Progress, SaysWhereTheRangeHasNoEnd) {
  auto rows = rows_with_target(0.9);
  for (const auto& [samples, accuracy] : {std::pair(1000U, 0.80), {2000U, 0.85}, {3000U, 0.855}})
    rows.push_back({7, ledger::evaluation{{.samples = samples, .test_accuracy = accuracy}}});
  EXPECT_THAT(progress_line(after(rows)), ::testing::ContainsRegex("90.0 % in [0-9]+ s or more  batch"));
}

TEST(Progress, NamesManyWorkersByTheirBounds) {
  auto rows = sample_rows();
  auto& workers = std::get<ledger::window>(rows.back().entry).workers;
  while (workers.size() < 40)
    workers.push_back(workers.front());
  workers.back().report.batch = 300;
  EXPECT_THAT(progress_line(after(rows)), ::testing::EndsWith("batch 39 to 300"));
}

TEST(Progress, CountsCompletedEpochs) {
  auto rows = sample_rows();
  for (auto& worker : std::get<ledger::window>(rows.back().entry).workers)
    worker.report.epoch = 1;
  EXPECT_DOUBLE_EQ(after(rows).samples_done(), 13'000);
  EXPECT_EQ(progress_line(after(rows)).substr(0, 15), "epoch 2/2  65 %");
  for (auto& worker : std::get<ledger::window>(rows.back().entry).workers) {
    worker.report.epoch = 2;
    worker.report.epoch_samples = 0;
  }
  EXPECT_EQ(progress_line(after(rows)).substr(0, 16), "epoch 2/2  100 %");
}

TEST(Progress, MeasuresAResumedRunFromItsResume) {
  auto rows = sample_rows();
  rows.push_back({0, start_row()}); // from a checkpoint after window 1
  EXPECT_EQ(progress_line(after(rows)), "waiting for workers: 0 of 2 are here");
  for (std::uint64_t window = 2; window <= 3; ++window) {
    ledger::window row{.key = {1, window}, .generation = 1};
    row.workers = {worker(report(0, window, 64), {}, 64)};
    row.workers[0].report.elapsed_seconds = 1.0 * static_cast<double>(window);
    rows.push_back({1, row});
  }
  EXPECT_DOUBLE_EQ(after(rows).samples_per_second(), 1000);
}

/// A window of two workers of a script, which have made `samples` each, and trained for so many seconds.
ledger::row script_window(std::uint64_t number, double first_seconds, double second_seconds, std::uint64_t samples) {
  ledger::window row{.key = {1, number}, .generation = 1};
  row.workers = {worker(report(0, number, 64), {}, 64), worker(report(1, number, 64), {}, 64)};
  row.workers[0].report.elapsed_seconds = first_seconds;
  row.workers[1].report.elapsed_seconds = second_seconds;
  for (auto& each : row.workers)
    each.report.training.samples = samples;
  return {1, row};
}

TEST(Progress, MeasuresSpeedWhereMembersComeAndGo) {
  auto start = start_row();
  start.dataset_samples = 0;
  std::vector<ledger::row> rows = {{0, start}, script_window(1, 10, 10, 100), script_window(2, 12, 12, 100)};
  EXPECT_DOUBLE_EQ(after(rows).samples_per_second(), 100);
  rows.push_back(script_window(3, 14, 1, 100)); // the second one has come again
  rows.push_back(script_window(4, 16, 3, 100));
  EXPECT_DOUBLE_EQ(after(rows).samples_per_second(), 100);
  auto late = script_window(5, 16, 4, 100); // the one that has trained longest is late
  std::get<ledger::window>(late.entry).workers[0].stale = true;
  rows.push_back(late);
  EXPECT_DOUBLE_EQ(after(rows).samples_per_second(), 700.0 / 6);
  rows.pop_back();
  rows.push_back(rows.back()); // said again to the next arbitrator
  EXPECT_DOUBLE_EQ(after(rows).samples_done(), 800);
  rows.pop_back();
  rows.push_back(script_window(5, 1, 5, 100)); // and then the first one, so nobody has trained for 16 s
  rows.push_back(script_window(6, 3, 7, 100));
  EXPECT_DOUBLE_EQ(after(rows).samples_per_second(), 100);
  EXPECT_DOUBLE_EQ(after(rows).samples_done(), 1200);
}

TEST(Progress, ShowsNoAccuracyOfAScriptThatTellsItsLossAlone) {
  auto start = start_row();
  start.dataset_samples = 0;
  std::vector<ledger::row> rows = {{0, start}, script_window(1, 10, 10, 100)};
  for (auto& each : std::get<ledger::window>(rows.back().entry).workers)
    each.report.training.accuracy = 0;
  rows.push_back({11, ledger::evaluation{{.test_loss = 2.5}}});
  EXPECT_THAT(progress_line(after(rows)), ::testing::Not(::testing::HasSubstr("accuracy")));
  rows.push_back({12, ledger::evaluation{{.test_accuracy = 0.5}}});
  EXPECT_THAT(progress_line(after(rows)), ::testing::HasSubstr("test accuracy 50.0 %"));
}

TEST(Progress, CountsTheSamplesOfAScriptAcrossLeaders) {
  auto start = start_row();
  start.dataset_samples = 0;
  const std::vector<ledger::row> rows = {
      {0, start}, script_window(1, 10, 10, 100), {0, start}, script_window(2, 12, 12, 100)};
  EXPECT_DOUBLE_EQ(after(rows).samples_done(), 400);
}

TEST(Progress, DoesNotLetStaleReportsMoveIt) {
  auto rows = sample_rows();
  auto late = std::get<ledger::window>(rows.back().entry);
  late.key.window = 4;
  for (auto& each : late.workers) {
    each.stale = true;
    each.report = report(each.report.rank, 1, 64);
  }
  rows.push_back({8, late});
  EXPECT_DOUBLE_EQ(after(rows).samples_done(), 3000);
  EXPECT_DOUBLE_EQ(after(rows).samples_per_second(), 500);
}

TEST(LedgerTail, ReadsEachWholeLineOnce) {
  const temporary_directory directory;
  const std::string path = directory.path() + "/windows.jsonl";
  ledger::tail tail(path);
  EXPECT_TRUE(tail.read().empty()) << "there is no file yet";
  const std::string line = ledger::to_json_line({1, ledger::event{ledger::event_kind::joined, "ada", ""}});
  std::ofstream file(path);
  file << line << "\n" << line.substr(0, 10) << std::flush;
  EXPECT_EQ(tail.read().size(), 1U);
  EXPECT_TRUE(tail.read().empty()) << "the second line is not whole yet";
  file << line.substr(10) << "\n" << line << "\n" << std::flush;
  EXPECT_EQ(tail.read().size(), 2U);
  EXPECT_TRUE(tail.read().empty());
}

TEST(LedgerTail, SkipsTheRowsThatAreThere) {
  const temporary_directory directory;
  const std::string path = directory.path() + "/windows.jsonl";
  ledger::tail tail(path);
  tail.skip(); // there is no file yet
  const auto line_of = [](const char* host) {
    return ledger::to_json_line({1, ledger::event{ledger::event_kind::joined, host, ""}});
  };
  std::ofstream file(path);
  file << line_of("ada") << "\n" << std::flush;
  EXPECT_EQ(tail.read().size(), 1U);

  file << line_of("ben") << "\n" << line_of("cat") << "\n" << std::flush;
  ledger::tail whole(path);
  whole.skip();
  EXPECT_TRUE(whole.read().empty());
  file << line_of("cat").substr(0, 10) << std::flush;
  ledger::tail torn(path);
  torn.skip();
  EXPECT_TRUE(torn.read().empty());
  file << "\n" << line_of("dot") << "\n" << std::flush;
  for (auto* each : {&whole, &torn}) {
    const auto rows = each->read();
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(std::get<ledger::event>(rows[0].entry).host, "dot");
  }
}

TEST(LedgerTail, SkipsTheSegmentsOfALedgerWhoseNewestPartIsEmpty) {
  const temporary_directory directory;
  const std::string path = directory.path() + "/windows.jsonl";
  const std::string line = ledger::to_json_line({1, ledger::event{ledger::event_kind::joined, "ada", ""}}) + "\n";
  std::ofstream(ledger::segment_path(path, 0)) << line;
  std::ofstream file(path);
  ledger::tail tail(path);
  tail.skip();
  EXPECT_TRUE(tail.read().empty());
  file << line << line << std::flush;
  EXPECT_EQ(tail.read().size(), 2U);
}

} // namespace
} // namespace dynamix::node
