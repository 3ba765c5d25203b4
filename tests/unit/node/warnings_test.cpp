#include "node/reports/run_records.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t windows = 90;

/// A run of 90 windows with batch sizes that move and probabilities that stay even; `change` makes it what is tested.
written_run long_run(const std::function<void(std::uint64_t window, ledger::worker& row)>& change,
                     const std::string& more = "") {
  written_run records{.file = pair_file(more), .rows = {{0, start_row()}}, .farewells = {}, .evaluations = {}};
  for (std::uint64_t window = 1; window <= windows; ++window) {
    ledger::window row{.key = {1, window}, .generation = 1};
    const auto batch = static_cast<std::uint32_t>(63 + window % 2);
    row.workers = {worker(report(0, window, batch), {}, batch), worker(report(1, window, batch), {}, batch)};
    for (auto& each : row.workers) {
      // Noise that the tests can compute with: 0.02 to either side.
      each.reward.total = 0.5 + (window % 2 == 0 ? 0.02 : -0.02);
      change(window, each);
    }
    records.rows.push_back({1, row});
  }
  return records;
}

std::vector<std::string> warnings_of(const std::function<void(std::uint64_t window, ledger::worker& row)>& change,
                                     const std::string& more = "") {
  return summarise(long_run(change, more)).warnings;
}

const std::string paper = "[reward]\nkind = \"paper\"\n";

TEST(Warnings, ARunWithoutTroubleHasNone) {
  EXPECT_THAT(warnings_of([](auto, auto&) {}), IsEmpty());
}

/// `learning_rate = 9` ended at 10 % without a word.
TEST(Warnings, TellOfTrainingThatDivergesWithTheStep) {
  const auto losses = [](double early, double late) {
    return warnings_of([=](std::uint64_t window, ledger::worker& row) {
      row.report.training.loss = window < 30 ? early : late;
      row.report.first_step = 10 * window;
    });
  };
  EXPECT_THAT(losses(2.3, 9), Contains(HasSubstr("the loss has risen from 2.3 at the beginning to 9 by step 900")));
  EXPECT_THAT(losses(2.3, 1e30), Contains(HasSubstr("the loss is not finite by step 900")));
  EXPECT_THAT(losses(2.3, 2.5), IsEmpty());

  const auto tested = [](double loss) {
    auto records = long_run([](auto, auto&) {});
    for (const std::uint64_t step : {50, 118, 235})
      records.evaluations.push_back({.step = step, .train_loss = loss, .test_loss = loss});
    return summarise(records).warnings;
  };
  EXPECT_THAT(tested(2.33), Contains(HasSubstr("has learnt nothing by step 235: its test loss of 2.33 is not below")));
  EXPECT_THAT(tested(1e31), Contains(HasSubstr("the loss is not finite by step 50")));
  EXPECT_THAT(tested(0.5), IsEmpty());
}

TEST(Warnings, ShowWhatTheRecordsShow) {
  auto records = sample_records();
  records.farewells[0].parameter_checksum = 18;
  records.farewells[0].telemetry_seconds = 1;
  records.rows.push_back({7, ledger::event{ledger::event_kind::warning, "ben", "the clock jumped"}});
  std::get<ledger::window>(records.rows[2].entry).workers[0].stale = true;
  const auto warnings = summarise(records, {.warnings = {"seen by the launcher"}}).warnings;
  EXPECT_EQ(warnings.front(), "seen by the launcher");
  EXPECT_THAT(warnings, Contains("ben: the clock jumped"));
  EXPECT_THAT(warnings, Contains("the workers ended with different parameters"));
  EXPECT_THAT(warnings, Contains(HasSubstr("telemetry costs 8.43 % of the time")));
  EXPECT_THAT(warnings, Contains("16.7 % of the window reports came too late for their window, most of them from ada; "
                                 "a larger cluster.detect_ms waits longer"));
}

TEST(Warnings, NameTheHostsThatWereLost) {
  auto records = sample_records();
  for (const char* host : {"ben", "ada", "ben"})
    records.rows.push_back({7, ledger::event{ledger::event_kind::lost, host, "the connection broke"}});
  const auto warnings = summarise(records).warnings;
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_THAT(warnings[0], HasSubstr("contact with ada was lost once; "));
  EXPECT_THAT(warnings[1], HasSubstr("contact with ben was lost 2 times; "));
}

TEST(Warnings, TellOfDeathsRatherThanOfTheNetwork) {
  auto records = sample_records();
  records.rows.push_back({7, ledger::event{ledger::event_kind::lost, "ben", "the connection broke"}});
  EXPECT_THAT(summarise(records, {.restarts = {{"ben", 1}}}).warnings, ElementsAre("ben died and was started again"));
}

TEST(Warnings, TellOfABatchSizeThatIsStuckAtABound) {
  const auto stuck = [](std::uint64_t window, ledger::worker& row) {
    if (row.report.rank == 0 && window >= 30)
      row.report.batch = 1024;
  };
  EXPECT_THAT(warnings_of(stuck), ElementsAre("the batch size of ada is stuck at batch.highest, 1024; a higher "
                                              "batch.highest gives the policy room, if memory allows"));
  EXPECT_THAT(warnings_of(stuck, "[arbitrator]\npolicy = \"static\"\n"), IsEmpty());
  EXPECT_THAT(warnings_of(stuck, "[arbitrator]\npolicy = \"static-best\"\n"), IsEmpty());
  EXPECT_THAT(warnings_of(stuck, "[arbitrator]\nshadow = true\n"), IsEmpty());
  EXPECT_THAT(warnings_of([](auto, auto& row) { row.report.batch = row.report.rank == 0 ? 32 : 33; }),
              ElementsAre(HasSubstr("ada is stuck at batch.lowest, 32; ")));
}

TEST(Warnings, KnowThatAHostHasABoundOfItsOwn) {
  EXPECT_THAT(warnings_of([](auto, auto& row) { row.report.batch = 200; }, "batch_highest = 200\n"),
              ElementsAre(HasSubstr("ben is stuck at host.batch_highest, 200; ")));
}

TEST(Warnings, KnowThatAScriptHasABoundOfItsOwn) {
  EXPECT_THAT(warnings_of([](auto, auto& row) {
                if (row.report.rank == 1)
                  row.report.batch = row.report.highest_batch = 200;
              }),
              ElementsAre(HasSubstr("ben is stuck at highest_batch, 200; ")));
}

TEST(Warnings, TellOfARewardThatCollapses) {
  const auto falls = [](std::uint64_t window, ledger::worker& row) {
    row.reward.total += window <= 30 ? 0.02 : window > 60 ? -0.15 : 0;
  };
  EXPECT_THAT(warnings_of(falls, paper),
              ElementsAre(HasSubstr("the reward collapsed from 0.520 in the first third of the run to 0.350 in the "
                                    "last; ")));
  EXPECT_THAT(warnings_of(falls, paper + "[arbitrator]\nmode = \"infer\"\n"), IsEmpty());
  EXPECT_THAT(warnings_of(falls), IsEmpty()) << "0.17 of log2 is 11 % of goodput";
  EXPECT_THAT(warnings_of([](std::uint64_t window, auto& row) { row.reward.total = window > 60 ? -0.4 : 0; }),
              ElementsAre(HasSubstr("the reward collapsed from 0.000")));
}

TEST(Warnings, TakeAFallWithinTheNoiseForNoise) {
  EXPECT_THAT(
      warnings_of([](std::uint64_t window,
                     auto& row) { row.reward.total = 0.5 + (window % 2 == 0 ? 1 : -1) - (window > 60 ? 0.15 : 0); },
                  paper),
      IsEmpty());
}

TEST(Warnings, TellOfAPolicyThatStopsExploringEarly) {
  const auto certain = [](std::uint64_t since) {
    return [since](std::uint64_t window, ledger::worker& row) {
      row.reward.total -= 1;
      if (window >= since)
        row.probabilities = {0.001F, 0.998F, 0.001F};
    };
  };
  EXPECT_THAT(warnings_of(certain(15)),
              ElementsAre(HasSubstr("the policy stopped exploring early: before a third of the run its entropy had "
                                    "fallen to 1.4 % of that of even odds")));
  EXPECT_THAT(warnings_of(certain(45)), IsEmpty()) << "it tried for long enough";
  EXPECT_THAT(warnings_of([&](std::uint64_t window, auto& row) {
                certain(15)(window, row);
                row.reward.total = -0.1;
              }),
              IsEmpty())
      << "nothing is left to be found";
  EXPECT_THAT(warnings_of(certain(1)), IsEmpty()) << "it was trained before";
  EXPECT_THAT(warnings_of([](std::uint64_t window, auto& row) {
                const float other = window >= 15 ? 0.0085F : 0.012F; // 12 % of even odds, then 9 %
                row.probabilities = {other, 1 - 2 * other, other};
              }),
              IsEmpty())
      << "it was trained before, too";
  EXPECT_THAT(warnings_of([&](std::uint64_t window, auto& row) {
                certain(15)(window, row);
                row.reward.total += window > 60 ? 0.1 : 0;
              }),
              IsEmpty())
      << "it has found something";
}

TEST(Warnings, TellOfAGuardThatStepsInAllTheTime) {
  const auto guarded = [](std::uint64_t share) {
    return [share](std::uint64_t window, ledger::worker& row) {
      if (window % 10 < share)
        row.intervention = window % 10 == 0 ? "not a valid choice" : "slower than goodput";
    };
  };
  EXPECT_THAT(
      warnings_of(guarded(4)),
      ElementsAre(
          "the guard overrode the policy in 40 % of the windows, mostly for: slower than goodput; the policy does not "
          "fit this cluster: train it further, or use arbitrator.policy = \"goodput\""));
  EXPECT_THAT(warnings_of(guarded(3)), IsEmpty());
}

} // namespace
} // namespace dynamix::node
