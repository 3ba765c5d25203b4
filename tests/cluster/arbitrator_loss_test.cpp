/// The arbitrator dies in mid-training: training goes on without it, and with its successor.

#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t window_steps = 2;

class ArbitratorLoss : public trial {
protected:
  /// Slow enough that most of the training is left after the first windows.
  void write_slow_file(double epochs) {
    write_file({.slowdowns = {10, 10}, .epochs = epochs, .arbitrator = "balance = \"off\"\n"});
  }

  /// Two workers, whose arbitrator is killed behind the third window.
  std::vector<program> start_and_lose_arbitrator() {
    std::vector<program> workers;
    workers.push_back(start_host("w0"));
    workers.push_back(start_host("w1"));
    auto arbitrator = start_host("hub");
    EXPECT_TRUE(wait_for_windows(3)) << workers[0].said();
    arbitrator.signal(SIGKILL);
    EXPECT_EQ(arbitrator.wait().code, 128 + SIGKILL);
    return workers;
  }

  /// Two epochs, of which the arbitrator sees three windows. The workers tell what their batch sizes do then.
  void train_on_without_the_arbitrator(const std::string& told) {
    auto workers = start_and_lose_arbitrator();
    for (auto& worker : workers) {
      EXPECT_EQ(worker.wait().code, 0) << worker.said();
      EXPECT_TRUE(worker.says(told + ", training goes on")) << worker.said();
    }
    for (const char* worker : {"w0", "w1"})
      EXPECT_EQ(farewell_of(worker).samples, 12000U);
    EXPECT_EQ(farewell_of("w0").parameter_checksum, farewell_of("w1").parameter_checksum);
  }
};

TEST_F(ArbitratorLoss, LeavesTheWorkersTrainingOnTheirLastBatchSizes) {
  write_file({.slowdowns = {10, 10}, .epochs = 2, .arbitrator = "policy = \"static\"\nbalance = \"off\"\n"});
  train_on_without_the_arbitrator("no batch size is decided");
  const auto decided = windows();
  for (const char* worker : {"w0", "w1"}) {
    const auto said = farewell_of(worker);
    EXPECT_TRUE(said.succeeded) << said.reason;
    EXPECT_GT(said.steps, window_steps * (decided.back().key.window + 2)) << "the arbitrator saw all windows";
    EXPECT_LE(said.decisions.received, decided.size() + 1) << "the last may have been sent and not recorded";
    EXPECT_LE(said.decisions.applied, said.decisions.received);
    EXPECT_EQ(said.steps, 2U * 47) << "of 128 samples, the last of an epoch of fewer: 64 for each worker all the time";
  }
}

TEST_F(ArbitratorLoss, CostsNothingWhereWorkersShareByTheirPaces) {
  write_file({.slowdowns = {10, 30}, .epochs = 2, .arbitrator = "policy = \"stigmergic\"\n"});
  train_on_without_the_arbitrator("workers share by their paces");
}

TEST_F(ArbitratorLoss, IsMendedByLocalWhileTrainingGoesOn) {
  write_slow_file(4);
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  ASSERT_TRUE(local.signal_host("hub", SIGKILL)) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("hub died (signal 9, Killed)"));
  EXPECT_THAT(ended.output, HasSubstr("hub is back after"));
  const auto summary = nlohmann::json::parse(contents_of(run().summary()));
  EXPECT_EQ(summary["succeeded"], true);
  EXPECT_EQ(summary["decisions"]["duplicated"], 0);
  EXPECT_EQ(generations().size(), 1U) << "the workers' generation did not notice";
  EXPECT_GT(windows().back().key.term, windows().front().key.term);
}

TEST_F(ArbitratorLoss, EndsWhenASuccessorTakesOverWithAHigherTerm) {
  write_slow_file(4);
  auto workers = start_and_lose_arbitrator();
  ASSERT_TRUE(wait_until(
      [&] { return std::ranges::all_of(workers, [](const program& each) { return each.says("arbitrator_lost"); }); }));
  auto second = start_host("hub", "--resume");
  for (auto& worker : workers)
    EXPECT_EQ(worker.wait().code, 0) << worker.said();
  EXPECT_EQ(second.wait().code, 0) << second.said();

  const auto decided = windows();
  const auto first_term = decided.front().key.term;
  std::uint64_t highest_term = first_term;
  std::uint64_t obeyed = 0; // windows that ran under a decision of the successor
  for (const auto& window : decided) {
    EXPECT_GE(window.key.term, highest_term) << "window " << window.key.window;
    highest_term = std::max(highest_term, window.key.term);
    if (std::ranges::all_of(window.workers, [&](const auto& each) { return each.report.decision.term > first_term; }))
      ++obeyed;
  }
  EXPECT_GT(highest_term, first_term);
  EXPECT_GT(obeyed, 0U);
  for (const auto& worker : workers)
    EXPECT_TRUE(worker.says("arbitrator_is_back")) << worker.said();
  EXPECT_EQ(farewell_of("w0").parameter_checksum, farewell_of("w1").parameter_checksum);
}

TEST_F(ArbitratorLoss, EndsWithItsWorkersWhereTheyFinishedWhileItWasGone) {
  write_slow_file(1);
  auto workers = start_and_lose_arbitrator();
  ASSERT_TRUE(wait_until([&] { return workers[0].says("training_ended"); })) << workers[0].said();
  auto second = start_host("hub", "--resume");
  EXPECT_EQ(second.wait().code, 0) << second.said();
  EXPECT_TRUE(second.says("training has ended")) << second.said();
  for (auto& worker : workers)
    EXPECT_EQ(worker.wait().code, 0) << worker.said();
}

/// Workers alone, under `stigmergic`: one of their hosts keeps membership and ledger.
class WorkersAlone : public trial {
protected:
  /// Slow enough that most of the training is left after the first windows.
  void write_slow_file(const std::string& more_of_arbitrator = {}) {
    write_file({.slowdowns = {10, 20, 10},
                .epochs = 2,
                .replicas = 0,
                .arbitrator = "policy = \"stigmergic\"\n" + more_of_arbitrator});
  }
};

TEST_F(WorkersAlone, WaitForTheOneWhoKeepsTheLedgerAndGoOnWithIt) {
  write_slow_file();
  auto first = start_host("w0");
  auto second = start_host("w1");
  auto third = start_host("w2");
  ASSERT_TRUE(wait_for_windows(3)) << first.said();
  first.signal(SIGKILL);
  EXPECT_EQ(first.wait().code, 128 + SIGKILL);
  for (auto* each : {&second, &third}) // nobody forms the next group
    ASSERT_TRUE(wait_until([&] { return each->says("training waits for"); })) << each->said();
  auto again = start_host("w0", "--resume");
  for (auto* each : {&again, &second, &third})
    EXPECT_EQ(each->wait().code, 0) << each->said();
  expect_whole_training({"w0", "w1", "w2"}, 12000);
  EXPECT_EQ(nlohmann::json::parse(contents_of(run().summary()))["succeeded"], true);
}

TEST_F(WorkersAlone, GoOnByThemselvesWhereThreeKeepTheLedger) {
  write_slow_file("replicas = [\"w0\", \"w1\", \"w2\"]\n");
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  const auto leaders = [this] {
    std::vector<std::string> found;
    for (const auto& event : rows<ledger::event>())
      if (event.event == ledger::event_kind::leader)
        found.push_back(event.host);
    return found;
  };
  ASSERT_TRUE(local.signal_host(leaders().back(), SIGKILL)) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_GE(leaders().size(), 2U) << ended.output;
  expect_whole_training({"w0", "w1", "w2"}, 12000);
}

} // namespace
} // namespace dynamix::cluster_test
