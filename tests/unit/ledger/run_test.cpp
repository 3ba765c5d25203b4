#include "ledger/run.hpp"
#include "ledger/warnings.hpp"
#include "tests/unit/ledger/rows.hpp"

#include <gmock/gmock.h>

#include <cmath>

namespace dynamix::ledger {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::HasSubstr;

run begun(std::uint64_t windows = 1) {
  run run(small_cluster());
  run.add(start_row());
  run.add({.entry = ledger::generation{.generation = 1, .members = {"w0", "w1"}}});
  for (std::uint64_t i = 1; i <= windows; ++i)
    run.add(window_row(i));
  return run;
}

TEST(Run, TellsOfTheNewestWindow) {
  const auto run = begun(3);
  EXPECT_EQ(run.window(), 3U);
  EXPECT_EQ(run.totals().windows, 3U);
  EXPECT_EQ(run.totals().decisions, 6U);
  EXPECT_EQ(run.totals().samples, 3U * 1290);
  EXPECT_FLOAT_EQ(run.course().newest(signal::accuracy), 0.55F);
  EXPECT_FLOAT_EQ(run.course().newest(signal::samples), 3 * 1290);
  EXPECT_FLOAT_EQ(run.course().newest(signal::samples_per_second), 640 + 650);
  EXPECT_FLOAT_EQ(run.course().newest(signal::entropy), static_cast<float>(std::log(2)));
  EXPECT_FLOAT_EQ(run.course().newest(signal::exchange), 0.03F);
  EXPECT_FLOAT_EQ(run.course().newest(signal::other), 0.005F);
  EXPECT_EQ(run.workers()[1].report.batch, 65U);
  EXPECT_EQ(run.workers()[1].decided_batch, 73U);
  EXPECT_EQ(run.workers()[1].batch_highest, 256U);
  EXPECT_EQ(run.workers()[1].state, worker_state::training);
  ASSERT_EQ(run.course().history().rows(), 3U);
  EXPECT_FLOAT_EQ(run.course().history().row(1)[0], 2);
  EXPECT_FLOAT_EQ(run.course().batches().row(2)[1], 65);
}

/// The leader before wrote its row, and died before its workers heard so; each sends what it said last again.
TEST(Run, CountsAReportOnceThatWasSaidAgainToAnotherLeader) {
  auto run = begun(3);
  auto again = window_row(3);
  std::get<ledger::window>(again.entry).key.term = 2;
  run.add(again);
  EXPECT_EQ(run.totals().windows, 3U);
  EXPECT_EQ(run.totals().samples, 3U * 1290);
  EXPECT_EQ(run.course().history().rows(), 3U);
  EXPECT_EQ(run.decisions().by_host().at("w0").count, 4U) << "it was decided again";
  auto partly = window_row(4);
  std::get<ledger::window>(partly.entry).workers[1].report.window = 3;
  run.add(partly);
  EXPECT_EQ(run.workers()[0].samples, 4U * 640);
  EXPECT_EQ(run.workers()[1].samples, 3U * 650);
  run.add({.entry = ledger::generation{.generation = 2, .members = {"w0", "w1"}}});
  run.add(window_row(4));
  EXPECT_EQ(run.workers()[0].samples, 5U * 640) << "the samples of a generation that ended are trained again";
}

TEST(Run, KnowsTheMostThatAWorkersMemoryHolds) {
  auto run = begun(1);
  EXPECT_EQ(run.workers()[1].limit(), 256U) << "the cluster file's";
  for (const auto& [said, expected] : {std::pair{90U, 90U}, {4096U, 256U}, {0U, 256U}}) {
    auto row = window_row(run.window() + 1);
    std::get<ledger::window>(row.entry).workers[1].report.highest_batch = said;
    run.add(row);
    EXPECT_EQ(run.workers()[1].limit(), expected);
    EXPECT_EQ(run.workers()[0].limit(), 256U);
  }
}

TEST(Run, TellsAStepsTimeByItsCausesWhereTheyAreKnown) {
  auto run = begun();
  auto row = window_row(2);
  for (auto& worker : std::get<ledger::window>(row.entry).workers)
    worker.time = {.compute_seconds = 0.04,
                   .cpu_wait_seconds = 0.02,
                   .network_seconds = 0.01,
                   .barrier_seconds = 0.02,
                   .data_seconds = 0.005,
                   .other_seconds = 0.005};
  run.add(row);
  EXPECT_EQ(run.workers()[0].parts, (time_parts{0.04, 0.02, 0.01, 0.02, 0, 0.005, 0.005}));
  EXPECT_FLOAT_EQ(run.course().newest(signal::cpu_wait), 0.02F);
  EXPECT_FLOAT_EQ(run.course().newest(signal::exchange), 0);
}

TEST(Run, KnowsNoTimeOfAWindowInWhichNoStepWasLookedAt) {
  auto run = begun();
  auto row = window_row(2);
  auto& workers = std::get<ledger::window>(row.entry).workers;
  const auto forget = [](messages::training_statistics& training) {
    training.untimed_steps = training.steps;
    training.iteration_seconds = training.compute_seconds = training.exchange_seconds = training.data_seconds = 0;
  };
  forget(workers[0].report.training);
  run.add(row);
  EXPECT_FLOAT_EQ(run.course().newest(signal::step_seconds), 0.1F) << "the other's";
  EXPECT_FLOAT_EQ(run.course().newest(signal::compute), 0.06F);
  EXPECT_FLOAT_EQ(run.course().newest(signal::samples_per_second), 1290) << "of both";
  forget(workers[1].report.training);
  for (auto& worker : workers)
    worker.report.window = 3;
  std::get<ledger::window>(row.entry).key.window = 3;
  run.add(row);
  for (const auto which : {signal::step_seconds, signal::compute, signal::samples_per_second})
    EXPECT_TRUE(std::isnan(run.course().newest(which)));
  EXPECT_TRUE(std::isnan(run.course().work_seconds().row(2)[1]));
}

TEST(Run, KnowsNoAccuracyAndNoLossBeforeSomebodyReportsThem) {
  auto run = begun(0);
  const auto add = [&run](std::uint64_t number, double accuracy, double loss) {
    auto row = window_row(number);
    for (auto& worker : std::get<ledger::window>(row.entry).workers) {
      worker.report.training.accuracy = accuracy;
      worker.report.training.loss = loss;
    }
    run.add(row);
  };
  add(1, 0, 0);
  EXPECT_TRUE(std::isnan(run.course().newest(signal::accuracy)));
  EXPECT_TRUE(std::isnan(run.course().newest(signal::loss)));
  add(2, 0, 0.5);
  EXPECT_TRUE(std::isnan(run.course().accuracy_of(run.workers()[0].report)));
  EXPECT_FLOAT_EQ(run.course().newest(signal::loss), 0.5F);
  add(3, 0.25, 0.5);
  add(4, 0, 0);
  EXPECT_FLOAT_EQ(run.course().newest(signal::accuracy), 0);
  EXPECT_EQ(run.course().accuracy_of(run.workers()[0].report), 0);
}

TEST(Run, TakesTheMeanOfTheLossesThatAreKnownOfAnySign) {
  auto run = begun(0);
  auto row = window_row(1);
  auto& workers = std::get<ledger::window>(row.entry).workers;
  ASSERT_EQ(workers.size(), 2U);
  workers[0].report.training.loss = -4;
  workers[1].report.training.loss = -2;
  run.add(row);
  EXPECT_FLOAT_EQ(run.course().newest(signal::loss), -3);
  row = window_row(2);
  std::get<ledger::window>(row.entry).workers[0].report.training.loss = -4;
  std::get<ledger::window>(row.entry).workers[1].report.training.loss = 0; // who reports none
  run.add(row);
  EXPECT_FLOAT_EQ(run.course().newest(signal::loss), -4);
}

TEST(Run, AStaleReportCountsOnce) {
  auto run = begun(1);
  auto late = window_row(2);
  auto& worker = std::get<ledger::window>(late.entry).workers[1];
  worker.report.window = 1;
  worker.stale = true;
  run.add(late);
  EXPECT_EQ(run.workers()[1].samples, 650U);
  EXPECT_EQ(run.workers()[1].stale_reports, 1U);
  EXPECT_TRUE(run.workers()[1].stale);
  EXPECT_TRUE(std::isnan(run.course().batches().row(1)[1]));
  EXPECT_FLOAT_EQ(run.course().newest(signal::samples_per_second), 640);
}

TEST(Run, LossAndReturnAreMarks) {
  auto run = begun(2);
  run.add(event_row(event_kind::lost, "w1", "the connection to it broke"));
  EXPECT_EQ(run.workers()[1].state, worker_state::lost);
  EXPECT_THAT(find_warnings(run), Contains(HasSubstr("not training with the others: w1")));
  run.add(event_row(event_kind::joined, "w1"));
  run.add({.entry = ledger::generation{.generation = 2, .members = {"w0", "w1"}, .reason = "w1 joins"}});
  EXPECT_EQ(run.workers()[1].state, worker_state::training);
  ASSERT_EQ(run.marks().size(), 3U);
  EXPECT_EQ(run.marks()[0].kind, mark_kind::fault);
  EXPECT_EQ(run.marks()[1].kind, mark_kind::back);
  EXPECT_EQ(run.marks()[2].kind, mark_kind::generation);
  EXPECT_EQ(run.marks()[0].elapsed_seconds, 2);
  EXPECT_EQ(run.totals().events.at("lost"), 1U);
}

TEST(Run, AnArbitratorThatBeginsAnewGoesOnWithTheSamePast) {
  auto run = begun(2);
  run.add(start_row());
  run.add(event_row(event_kind::rejoined, "w0"));
  run.add(event_row(event_kind::rejoined, "w1"));
  run.add(window_row(3));
  EXPECT_EQ(run.totals().windows, 3U);
  EXPECT_EQ(run.workers()[0].state, worker_state::training);
  ASSERT_EQ(run.marks().size(), 1U);
  EXPECT_EQ(run.marks()[0].kind, mark_kind::arbitrator);
}

TEST(Run, TimeGoesOnWhereAResumedRunSteppedBack) {
  auto run = begun(5);
  run.add(start_row());
  run.add(window_row(2));
  run.add(window_row(3));
  EXPECT_FLOAT_EQ(run.course().newest(signal::elapsed_seconds), 6);
  EXPECT_FLOAT_EQ(run.course().newest(signal::samples), 3 * 1290);
}

TEST(Run, EndsWithTheLastFarewell) {
  auto run = begun();
  run.add({.entry = ledger::farewell{{.host = "w0", .succeeded = true, .reason = "epochs completed"}}});
  EXPECT_FALSE(run.ended());
  run.add({.entry = ledger::farewell{{.host = "w1", .succeeded = true, .reason = "epochs completed"}}});
  EXPECT_TRUE(run.ended());
  EXPECT_EQ(run.ending(), "epochs completed");
}

TEST(Run, KnowsTheTreeOfArbitrators) {
  auto run = begun();
  run.add({.entry = ledger::shard{"w0", "", 0, 2, shard_state::up}});
  run.add({.entry = ledger::shard{"w1", "w0", 1, 2, shard_state::up}});
  EXPECT_TRUE(run.marks().empty());
  run.add({.entry = ledger::shard{"w1", "w0", 1, 2, shard_state::lost}});
  EXPECT_EQ(run.shards().at("w1").state, shard_state::lost);
  EXPECT_EQ(run.marks().back().text, "arbitrator of w1 lost");
  EXPECT_THAT(find_warnings(run), Contains(HasSubstr("the arbitrator of w1 is lost")));
}

TEST(Run, ForeignNamesAndManyEventsStayWithinLimits) {
  auto run = begun();
  for (int i = 0; i < 5000; ++i) {
    run.add(event_row(event_kind::unknown, "nobody", std::string(10'000, 'x')));
    run.add(event_row(event_kind::lost, "w0"));
    run.add({.entry = ledger::shard{.name = "s" + std::to_string(i), .state = shard_state::up}});
    run.add({.entry = ledger::evaluation{{.step = static_cast<std::uint64_t>(i)}}});
  }
  EXPECT_LE(run.events().size(), events_kept);
  EXPECT_LE(run.marks().size(), marks_kept);
  EXPECT_LE(run.shards().size(), shards_kept);
  EXPECT_LE(run.evaluations().size(), history_rows);
  EXPECT_EQ(run.evaluations().back().step, 4999U);
  EXPECT_LE(run.events().back().text.size(), text_bytes_kept + 3);
}

class OpenRun : public ::testing::Test {
protected:
  OpenRun() { run_.add(start_row()); }

  static cluster::cluster_file file() {
    auto open = small_cluster(1);
    open.membership = cluster::membership_kind::open;
    open.workers_max = 3;
    return open;
  }
  /// All of `hosts` report, by rank.
  void report(const std::vector<std::string>& hosts) {
    auto row = window_row(++windows_, hosts.size());
    auto& workers = std::get<ledger::window>(row.entry).workers;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      workers[rank].report.host = hosts[rank];
    run_.add(row);
  }

  run run_{file()};
  std::uint64_t windows_ = 0;
};

TEST_F(OpenRun, HasNoWorkersButThoseThatHaveCome) {
  EXPECT_EQ(run_.workers().size(), 1U);
  report({"w0", "guest"});
  ASSERT_EQ(run_.workers().size(), 2U);
  EXPECT_EQ(run_.workers()[1].name, "guest");
  EXPECT_EQ(run_.workers()[1].state, worker_state::training);
  EXPECT_EQ(run_.workers()[1].samples, 650U);
  EXPECT_EQ(run_.totals().samples, 1290U);
  EXPECT_EQ(run_.find_worker("guest"), &run_.workers()[1]);
  run_.add(event_row(event_kind::lost, "guest"));
  EXPECT_EQ(run_.workers()[1].state, worker_state::lost);
  EXPECT_THAT(find_warnings(run_), ::testing::Not(Contains(HasSubstr("not training with the others"))));
}

TEST_F(OpenRun, ForgetsWhoseRankIsAnothers) {
  report({"w0", "guest"});
  run_.add({.entry = ledger::farewell{{.host = "guest", .rank = 1, .steps = 10, .decisions = {}}}});
  EXPECT_TRUE(run_.farewells().contains("guest"));
  report({"w0", "other"});
  EXPECT_EQ(run_.workers()[1].name, "other");
  EXPECT_EQ(run_.workers()[1].samples, 650U);
  EXPECT_EQ(run_.find_worker("guest"), nullptr);
  EXPECT_FALSE(run_.farewells().contains("guest"));
  report({"w0", "other", "guest"});
  EXPECT_EQ(run_.workers()[2].name, "guest");
  report({"w0", "guest"});
  EXPECT_EQ(run_.find_worker("guest"), &run_.workers()[1]);
  EXPECT_EQ(run_.workers()[2].name, "+2") << "nobody's again";
}

TEST_F(OpenRun, LetsNobodyTakeAHostsRankOrOneThatIsNone) {
  report({"thief"});
  EXPECT_EQ(run_.workers()[0].name, "w0");
  run_.add({.entry = ledger::farewell{{.host = "far", .rank = 4000, .steps = 10, .decisions = {}}}});
  EXPECT_EQ(run_.workers().size(), 1U);
}

} // namespace
} // namespace dynamix::ledger
