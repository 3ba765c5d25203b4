/// Workers that die, hang and come back in mid-training, and training that a person stops.

#include "messages/leave.hpp"
#include "tests/cluster/trial.hpp"
#include "trainer/checkpoint.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>

namespace dynamix::cluster_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class WorkerLoss : public trial {
protected:
  /// Slow enough that most of the training is left after the first windows.
  void write_slow_file(double epochs) { write_file({.slowdowns = {10, 10, 10}, .epochs = epochs}); }

  nlohmann::json summary() const { return nlohmann::json::parse(contents_of(run().summary())); }
};

TEST_F(WorkerLoss, CostsLocalAtMostAStepAndTheWorkerComesBack) {
  write_slow_file(3);
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  ASSERT_TRUE(local.signal_host("w0", SIGKILL)) << local.said(); // rank 0
  ASSERT_TRUE(wait_for_generation({"w0", "w1", "w2"}, 1)) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("w0 died (signal 9, Killed); restarting (1 of 5 within 30 s)"));
  EXPECT_THAT(ended.output, HasSubstr("w0 is back after"));
  expect_whole_training({"w0", "w1", "w2"}, 18000);
  EXPECT_EQ(summary()["succeeded"], true);
  EXPECT_EQ(summary()["decisions"]["duplicated"], 0);
}

TEST_F(WorkerLoss, CostsAtMostAStepWhereWorkersSumForEachOther) {
  write_file({.slowdowns = {10, 10, 10}, .epochs = 3, .training = "exchange = \"parameter-server\"\n"});
  auto local = start_local();
  for (const char* lost : {"w0", "w2"}) {
    const auto before = generations().empty() ? 1 : generations().back().generation;
    ASSERT_TRUE(wait_for_generation({"w0", "w1", "w2"}, before - 1)) << local.said();
    ASSERT_TRUE(local.signal_host(lost, SIGKILL)) << local.said();
    ASSERT_TRUE(wait_for_generation({"w0", "w1", "w2"}, before)) << local.said();
  }
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  expect_whole_training({"w0", "w1", "w2"}, 18000);
  EXPECT_EQ(summary()["decisions"]["duplicated"], 0);
  EXPECT_EQ(summary()["samples_dropped"], 0);
}

/// Hosts that only sum: one dies and comes back, one hangs, and one leaves.
TEST_F(WorkerLoss, OfAServerCostsAtMostAStepAndTheWorkersSumItsShare) {
  write_file(
      {.slowdowns = {10, 10, 10}, .epochs = 1000, .training = "exchange = \"parameter-server\"\n", .servers = 1});
  auto local = start_local();
  const std::vector<std::string> all = {"w0", "w1", "w2", "s0"};
  const std::vector<std::string> workers = {"w0", "w1", "w2"};
  ASSERT_TRUE(wait_for_generation(all)) << local.said();
  ASSERT_TRUE(local.signal_host("s0", SIGKILL)) << local.said();
  ASSERT_TRUE(wait_for_generation(all, 1)) << local.said();
  const auto back = generations().back().generation;
  ASSERT_TRUE(local.signal_host("s0", SIGSTOP)) << local.said();
  ASSERT_TRUE(wait_for_generation(workers, back)) << local.said();
  ASSERT_TRUE(local.signal_host("s0", SIGCONT)) << local.said();
  ASSERT_TRUE(wait_for_generation(all, back + 1)) << local.said();
  const auto woken = generations().back().generation;
  ASSERT_TRUE(local.signal_host("s0", SIGTERM)) << local.said();
  ASSERT_TRUE(wait_for_generation(workers, woken)) << local.said();
  EXPECT_EQ(generations().back().reason, "s0 has left");
  local.signal(SIGINT);
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 1) << "stopped before its end";
  for (const auto& worker : workers) {
    EXPECT_TRUE(farewell_of(worker).succeeded);
    EXPECT_EQ(farewell_of(worker).reason, "stopped");
    EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum);
  }
  for (const auto& formed : generations())
    EXPECT_LE(formed.steps_lost, 1U) << "generation " << formed.generation;
  EXPECT_EQ(summary()["samples_dropped"], 0);
}

TEST_F(WorkerLoss, WithoutARestartIsMadeUpForByTheOthers) {
  write_file({.slowdowns = {10, 10, 10}, .epochs = 2, .arbitrator = "policy = \"static\""});
  auto arbitrator = start_host("hub");
  auto first = start_host("w0");
  auto second = start_host("w1");
  auto third = start_host("w2");
  ASSERT_TRUE(wait_for_windows(3)) << first.said();
  const auto global_batch = windows().back().workers.front().report.global_batch;
  second.signal(SIGKILL);
  second.wait();
  ASSERT_TRUE(wait_for_generation({"w0", "w2"})) << first.said();
  std::vector<ledger::window> all;
  // A window may close without whoever is late with its first report.
  const auto of_both = [](const auto& window) { return window.generation > 1 && window.workers.size() == 2; };
  ASSERT_TRUE(wait_until([&] { return std::ranges::any_of(all = windows(), of_both); })) << first.said();
  EXPECT_EQ(std::ranges::find_if(all, of_both)->workers.front().report.global_batch, global_batch) << "it is kept";
  EXPECT_EQ(first.wait().code, 0) << first.said();
  EXPECT_EQ(third.wait().code, 0) << third.said();
  EXPECT_EQ(arbitrator.wait().code, 0) << arbitrator.said();
  EXPECT_THAT(arbitrator.said(), HasSubstr("w0 and w2 finished"));
  expect_whole_training({"w0", "w2"}, 12000);
}

TEST_F(WorkerLoss, ByAHangIsNoticedAndTheWorkerComesBackWhenItWakes) {
  write_slow_file(3);
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  ASSERT_TRUE(local.signal_host("w2", SIGSTOP)) << local.said();
  ASSERT_TRUE(wait_for_generation({"w0", "w1"})) << local.said();
  EXPECT_THAT(contents_of(run().log("hub")), HasSubstr("it has been silent for"));
  ASSERT_TRUE(local.signal_host("w2", SIGCONT)) << local.said();
  ASSERT_TRUE(wait_for_generation({"w0", "w1", "w2"}, 1)) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  expect_whole_training({"w0", "w1", "w2"}, 18000);
}

TEST_F(WorkerLoss, WhileNoArbitratorIsThereWaitsForOne) {
  write_slow_file(2);
  auto arbitrator = start_host("hub");
  auto first = start_host("w0");
  auto second = start_host("w1");
  auto third = start_host("w2");
  ASSERT_TRUE(wait_for_windows(3)) << first.said();
  arbitrator.signal(SIGKILL);
  arbitrator.wait();
  ASSERT_TRUE(wait_until([&] { return first.says("arbitrator_lost") && third.says("arbitrator_lost"); }));
  second.signal(SIGKILL);
  second.wait();
  ASSERT_TRUE(wait_until([&] { return first.says("generation_left") && third.says("generation_left"); }));
  auto successor = start_host("hub", "--resume");
  EXPECT_EQ(first.wait().code, 0) << first.said();
  EXPECT_EQ(third.wait().code, 0) << third.said();
  EXPECT_EQ(successor.wait().code, 0) << successor.said();
  expect_whole_training({"w0", "w2"}, 12000);
  EXPECT_GE(generations().back().generation, 2U) << "above the one before";
}

TEST_F(WorkerLoss, OfAllGoesOnFromTheNewestCheckpoint) {
  write_file({.slowdowns = {10, 10, 10}, .epochs = 2, .training = "checkpoint_every_epochs = 0.1"});
  auto local = start_local();
  ASSERT_TRUE(wait_until([&] { return !trainer::newest_checkpoint(run().checkpoints()).path.empty(); }));
  for (const char* worker : {"w0", "w1", "w2"})
    ASSERT_TRUE(local.signal_host(worker, SIGKILL)) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  const auto formed = generations();
  ASSERT_GE(formed.size(), 2U);
  EXPECT_GT(formed[1].steps, 0U) << "it goes on from a checkpoint";
  EXPECT_EQ(farewell_of("w0").samples, 12000U);
  EXPECT_EQ(farewell_of("w0").parameter_checksum, farewell_of("w2").parameter_checksum);
}

/// A host that is asked to end (SIGTERM) while the others go on.
class LeavingHost : public WorkerLoss {};

TEST_F(LeavingHost, CostsAtMostAStepAndLocalGoesOnWithoutIt) {
  write_slow_file(2);
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  const auto asked = std::chrono::steady_clock::now();
  ASSERT_TRUE(local.signal_host("w1", SIGTERM)) << local.said();
  ASSERT_TRUE(wait_for_generation({"w0", "w2"})) << local.said();
  RecordProperty(
      "resumed_ms",
      static_cast<int>(
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - asked).count()));
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("w1 has left: its process was asked to end (SIGTERM); the others go on"));
  EXPECT_THAT(ended.output, HasSubstr("w1, in order, before the end"));
  expect_whole_training({"w0", "w2"}, 12000);
  const auto formed = generations();
  ASSERT_GE(formed.size(), 2U);
  EXPECT_EQ(formed[1].reason, "w1 has left");
  for (const auto& later : std::span(formed).subspan(1))
    EXPECT_THAT(later.members, Not(Contains("w1"))) << "nobody starts it again";
  EXPECT_THAT(farewell_of("w1").reason, HasSubstr("left: its host was asked to end, after step"));
  EXPECT_THAT(farewell_of("w1").reason, HasSubstr("; checkpoint "));
  EXPECT_THAT(contents_of(run().log("w1")), HasSubstr("host_ended reason=\"left: "));
  EXPECT_EQ(summary()["succeeded"], true);
  EXPECT_EQ(summary()["reason"], "epochs completed");
  EXPECT_EQ(summary()["left"], nlohmann::json({"w1"}));
  EXPECT_EQ(summary()["decisions"]["lost"], 0);
  EXPECT_EQ(summary()["samples_dropped"], 0);
}

TEST_F(LeavingHost, JoinsAgainWhenItIsStartedAgain) {
  write_slow_file(4);
  auto arbitrator = start_host("hub");
  auto first = start_host("w0");
  auto second = start_host("w1");
  auto third = start_host("w2");
  ASSERT_TRUE(wait_for_windows(3)) << first.said();
  second.signal(SIGTERM);
  EXPECT_EQ(second.wait().code, 0) << second.said();
  ASSERT_TRUE(wait_for_generation({"w0", "w2"})) << first.said();
  auto again = start_host("w1", "--resume");
  ASSERT_TRUE(wait_for_generation({"w0", "w1", "w2"}, 1)) << again.said();
  for (auto* one : {&first, &again, &third, &arbitrator})
    EXPECT_EQ(one->wait().code, 0) << one->said();
  EXPECT_THAT(arbitrator.said(), HasSubstr("all workers have finished"));
  expect_whole_training({"w0", "w1", "w2"}, 24000);
  EXPECT_EQ(summary()["succeeded"], true);
  EXPECT_TRUE(summary()["left"].empty()) << "it came back";
}

TEST_F(LeavingHost, ThatAloneArbitratesOrIsTheLastWorkerEndsTraining) {
  for (const char* last : {"hub", "w0"}) {
    write_file({.slowdowns = {10}, .epochs = 2});
    auto arbitrator = start_host("hub");
    auto worker = start_host("w0");
    ASSERT_TRUE(wait_for_windows(3)) << worker.said();
    (last == std::string("hub") ? arbitrator : worker).signal(SIGTERM);
    const bool worker_asked = last == std::string("w0");
    EXPECT_EQ(worker.wait().code, worker_asked ? 130 : 3) << last << ": " << worker.said();
    EXPECT_EQ(arbitrator.wait().code, worker_asked ? 3 : 130) << last << ": " << arbitrator.said();
    EXPECT_EQ(farewell_of("w0").reason, "stopped") << last;
    EXPECT_EQ(summary()["reason"], "stopped") << last;
    std::filesystem::remove_all(run().path());
  }
}

class StoppedTraining : public trial {
protected:
  trainer::newest_result newest() const { return trainer::newest_checkpoint(run().checkpoints()); }
};

TEST_F(StoppedTraining, EndsGracefullyAndCanBeResumed) {
  write_file({.slowdowns = {10, 10, 10}, .epochs = 1});
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  local.signal(SIGINT);
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 1) << "stopped before its end";
  EXPECT_THAT(ended.output, HasSubstr("stopping at the next window boundary"));
  EXPECT_THAT(ended.output, HasSubstr("stopped before the end. Checkpoint of step"));
  for (const char* worker : {"w0", "w1", "w2"}) {
    EXPECT_TRUE(farewell_of(worker).succeeded);
    EXPECT_EQ(farewell_of(worker).reason, "stopped");
    EXPECT_EQ(farewell_of(worker).steps, newest().state.step);
  }
  EXPECT_LT(newest().state.samples, 6000U);

  const auto from = newest();
  const auto windows_before = windows().size();
  const auto resumed = end_of({"local", "--resume", run().path()});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  const auto summary = nlohmann::json::parse(contents_of(run().summary()));
  EXPECT_EQ(summary["succeeded"], true);
  EXPECT_EQ(summary["reason"], "epochs completed");
  EXPECT_GE(summary["samples"], 6000);
  EXPECT_EQ(summary["decisions"]["lost"], 0);
  const auto all = windows();
  ASSERT_GT(all.size(), windows_before);
  EXPECT_GE(all[windows_before].workers.front().report.first_step, from.state.step) << "it trained steps twice";
  for (const char* worker : {"w1", "w2"})
    EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum);
}

/// Hosts that were started by themselves said 0, and `local` 1.
TEST_F(StoppedTraining, ByAGradientThatIsNotFiniteIsNoSuccessOfAnyCommand) {
  write_file({.epochs = 3, .training = "learning_rate = 10\nweight_decay = 1\n", .cluster = patient_cluster});
  auto arbitrator = start_host("hub");
  auto second = start_host("w1");
  const auto first = end_of({"run", "--cluster", file(), "--name", "w0", "--out", run().path()});
  EXPECT_EQ(first.code, 3) << first.output;
  EXPECT_THAT(first.output,
              HasSubstr("error: training was ended before its end: the gradients of all workers in step "));
  EXPECT_THAT(first.output, HasSubstr("Go on by the same command with --resume "));
  for (auto* other : {&second, &arbitrator})
    EXPECT_EQ(other->wait().code, 3) << other->said();
  EXPECT_EQ(messages::end_of(farewell_of("w1")), messages::farewell_end::stopped);
  std::filesystem::remove_all(run().path());
  const auto whole = start_local().wait();
  EXPECT_EQ(whole.code, 1) << whole.output;
  EXPECT_THAT(whole.output, HasSubstr("training was ended before its end: the gradients of all workers in step "));
}

/// Workers that move work at every step, of whom one is killed and comes back; all are stopped, and resumed.
class MovedWork : public trial {
protected:
  void expect_equal_parameters() const {
    for (const char* worker : {"w1", "w2"})
      EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum) << worker;
  }

  void train_through_a_loss_and_a_stop(const std::string& arbitrator) {
    write_file({.slowdowns = {10, 20, 10},
                .epochs = 2,
                .more = "[[host.emulate]]\nat_seconds = 3\ncompute_slowdown = 20\n", // of w2
                .arbitrator = arbitrator,
                .window_steps = 5});
    auto local = start_local();
    ASSERT_TRUE(wait_for_windows(3)) << local.said();
    ASSERT_TRUE(local.signal_host("w1", SIGKILL)) << local.said();
    ASSERT_TRUE(wait_for_generation({"w0", "w1", "w2"}, 1)) << local.said();
    local.signal(SIGINT);
    const auto stopped = local.wait();
    ASSERT_EQ(stopped.code, 1) << stopped.output;
    EXPECT_LT(farewell_of("w0").samples, 12000U);
    expect_equal_parameters();

    const auto resumed = end_of({"local", "--resume", run().path()});
    EXPECT_EQ(resumed.code, 0) << resumed.output;
    for (const char* worker : {"w0", "w1", "w2"})
      EXPECT_EQ(farewell_of(worker).samples, 12000U) << worker;
    expect_equal_parameters();
    const auto all = windows();
    const auto moved = [](const auto& worker) { return worker.report.balance.moves > 0; };
    EXPECT_TRUE(std::ranges::any_of(all, [&](const auto& one) { return std::ranges::any_of(one.workers, moved); }));
  }
};

TEST_F(MovedWork, BetweenDecisionsIsDealtOnceThroughALossAndAStop) {
  train_through_a_loss_and_a_stop("policy = \"goodput\"\nbalance = \"on\"\n");
}

TEST_F(MovedWork, ByThePacesAloneIsDealtOnceThroughALossAndAStop) {
  train_through_a_loss_and_a_stop("policy = \"stigmergic\"\n");
}

} // namespace
} // namespace dynamix::cluster_test
