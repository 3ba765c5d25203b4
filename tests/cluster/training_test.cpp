/// Runs that nothing disturbs.

#include "storage/atomic_file.hpp"
#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class UndisturbedRun : public trial {
protected:
  /// window -> the reports on it, by rank; each once, also where one stood in for a later one.
  std::map<std::uint64_t, std::map<std::uint32_t, messages::window_report>> reports() const {
    std::map<std::uint64_t, std::map<std::uint32_t, messages::window_report>> found;
    for (const auto& window : windows())
      for (const auto& worker : window.workers)
        found[worker.report.window][worker.report.rank] = worker.report;
    return found;
  }

  void expect_sound_decisions(std::size_t workers) const {
    std::map<std::pair<messages::decision_key, std::uint32_t>, std::uint32_t> decided;
    bool differ = false;
    for (const auto& window : windows()) {
      std::set<std::uint32_t> sizes;
      for (const auto& worker : window.workers) {
        decided[{window.key, worker.report.rank}] = worker.decided_batch;
        sizes.insert(worker.report.batch);
        EXPECT_GE(worker.decided_batch, 32U);
        EXPECT_LE(worker.decided_batch, 256U);
      }
      differ = differ || sizes.size() > 1;
    }
    EXPECT_TRUE(differ) << "every window ran with the same batch size on all workers";

    messages::decision_key last{};
    for (const auto& [window, by_rank] : reports()) {
      EXPECT_EQ(by_rank.size(), workers) << "window " << window;
      const auto& first = by_rank.begin()->second;
      EXPECT_GE(first.decision, last) << "window " << window << " ran under an older decision than the one before";
      last = first.decision;
      for (const auto& [rank, report] : by_rank) {
        EXPECT_EQ(report.decision, first.decision) << "window " << window << ", rank " << rank;
        EXPECT_EQ(report.first_step, first.first_step) << "window " << window << ", rank " << rank;
        const bool initial = report.decision == messages::decision_key{};
        EXPECT_EQ(report.batch, initial ? 32 : decided.at({report.decision, rank}))
            << "window " << window << ", rank " << rank;
      }
    }
    EXPECT_GT(last.window, 0U) << "no decision was ever in force";
  }
};

TEST_F(UndisturbedRun, TrainsFourUnequalWorkersAndLosesNoDecision) {
  write_file({.slowdowns = {1, 1, 2, 4},
              .dataset = cluster::training{}.data_path,
              .epochs = 1, // 29 windows at least, if all choose the largest batch from the start
              .more = "[ppo]\nhorizon = 2\n",
              .arbitrator = "balance = \"off\"\nguard = false\n", // which would spare an untrained policy most of its lessons
              .cluster = patient_cluster});
  const auto ended = start_local().wait();
  ASSERT_EQ(ended.code, 0) << ended.output;

  const auto summary = nlohmann::json::parse(contents_of(run().summary()));
  for (const char* key :
       {"cluster", "policy", "seed", "workers", "wall_seconds", "steps", "samples", "epochs", "final_accuracy",
        "target_accuracy", "seconds_to_target", "decisions", "generations", "restarts", "overhead", "warnings"})
    EXPECT_TRUE(summary.contains(key)) << key;
  for (const char* key : {"control_fraction", "telemetry_fraction"})
    EXPECT_TRUE(summary["overhead"].contains(key)) << key;
  EXPECT_EQ(summary["workers"], 4);
  EXPECT_GE(summary["samples"], 60000);
  EXPECT_EQ(summary["generations"], 1);
  EXPECT_EQ(summary["restarts"], 0);
  EXPECT_GE(summary["policy_version"], 1) << "the policy has learned nothing";
  EXPECT_GT(summary["final_accuracy"], 0.2) << "ten classes guessed blindly give 0.1";
  const auto& counted = summary["decisions"];
  EXPECT_EQ(counted["lost"], 0);
  EXPECT_EQ(counted["duplicated"], 0);
  EXPECT_EQ(counted["stale_refused"], 0);
  EXPECT_GT(counted["applied"], 0);

  std::uint64_t received = 0;
  std::set<std::uint64_t> checksums;
  for (const char* worker : {"w0", "w1", "w2", "w3"}) {
    const auto said = farewell_of(worker);
    const auto& own = said.decisions;
    EXPECT_TRUE(said.succeeded) << said.reason;
    EXPECT_EQ(said.steps, summary["steps"]);
    EXPECT_EQ(own.received, own.applied + own.superseded + own.unapplied) << worker;
    received += own.received;
    checksums.insert(said.parameter_checksum);
  }
  EXPECT_EQ(counted["made"], received);
  EXPECT_EQ(checksums.size(), 1U) << "the workers ended with different parameters";
  expect_sound_decisions(4);
}

TEST_F(UndisturbedRun, GoesOnLearningFromEpisodeToEpisodeOfAnExperiment) {
  write_file({.epochs = 0.3,
              .more = "[ppo]\nhorizon = 2\n",
              .training = "target_accuracy = 0.99\n",
              .arbitrator = "guard = false\n",
              .cluster = patient_cluster});
  const auto experiment = directory_.path() + "/experiment.toml";
  ASSERT_EQ(storage::write_file_atomically(experiment, "[experiment]\ntitle = \"Learning\"\n[[part]]\nname = \"live\"\n"
                                                       "clusters = \"cluster.toml\"\npolicies = \"ppo-simple\"\n"
                                                       "episodes = 3\n"),
            "");
  const auto ended = end_of({"experiment", experiment, "--out", run().path()});
  ASSERT_EQ(ended.code, 0) << ended.output;
  const node::run_directory last(run().path() + "/live/trial/ppo-simple-seed-3");
  const auto outcome = nlohmann::json::parse(contents_of(last.path() + "/outcome.json"));
  EXPECT_EQ(outcome["episode_rewards"].size(), 3U);
  EXPECT_EQ(outcome["seed"], 3);
  EXPECT_THAT(contents_of(last.cluster_file()), HasSubstr("ppo-simple-seed-3-learned.dynamix"))
      << "the last one begins with what the others have learned";
  EXPECT_FALSE(std::filesystem::exists(last.path() + "-learned.dynamix"));
}

/// A first step of 900 samples would take some 430 MB.
TEST_F(UndisturbedRun, FinishesWithin300MegabytesAndTellsItsLimit) {
  write_file({.slowdowns = {1, 1},
              .epochs = 0.3,
              .training = "model = \"vgg11\"\nwidth = 0.25\ndataset = \"fashion-mnist-32\"\nmemory_mb = 300\n",
              .arbitrator = "policy = \"static\"\n",
              .cluster = patient_cluster});
  replace_in_file("highest = 256", "initial = 900\nhighest = 1024");
  const auto ended = start_local().wait();
  ASSERT_EQ(ended.code, 0) << ended.output;
  for (const char* worker : {"w0", "w1"}) {
    const auto said = farewell_of(worker);
    EXPECT_TRUE(said.succeeded) << said.reason;
    EXPECT_EQ(said.samples, 1800U);
    EXPECT_THAT(contents_of(run().path() + "/logs/" + worker + ".log"),
                HasSubstr("memory_limited batch=900 micro_batch="));
  }
}

/// Nobody decides: each worker tells of its pace beside its gradients, and all come to the same shares.
TEST_F(UndisturbedRun, SharesWorkByThePacesAlone) {
  write_file({.slowdowns = {1, 4}, .epochs = 3, .arbitrator = "policy = \"stigmergic\"\n", .cluster = patient_cluster});
  const auto ended = start_local().wait();
  ASSERT_EQ(ended.code, 0) << ended.output;
  std::set<std::uint64_t> checksums;
  for (const char* worker : {"w0", "w1"}) {
    const auto said = farewell_of(worker);
    EXPECT_TRUE(said.succeeded) << said.reason;
    EXPECT_EQ(said.samples, 18000U) << "each of 6,000 once an epoch";
    checksums.insert(said.parameter_checksum);
  }
  EXPECT_EQ(checksums.size(), 1U) << "the workers ended with different parameters";
  double slowed = 0;
  double other = 0;
  std::uint64_t moves = 0;
  for (const auto& [window, by_rank] : reports()) {
    for (const auto& [rank, report] : by_rank) { // a busy machine may lose a report to a deadline
      (rank == 1 ? slowed : other) += report.batch;
      moves += report.balance.moves;
    }
  }
  EXPECT_LT(slowed, other / 1.5) << "it computes four times as long for each sample";
  EXPECT_GT(moves, 0U);
}

/// The same gradients give the same parameters, however servers share them out.
TEST_F(UndisturbedRun, SumsThroughServersAndEndsWithTheSameParametersOnAllWorkers) {
  write_file({.slowdowns = {1, 1, 1},
              .epochs = 0.5,
              .training = "exchange = \"parameter-server\"\n",
              .arbitrator = "policy = \"goodput\"\n",
              .cluster = patient_cluster});
  const auto ended = start_local().wait();
  ASSERT_EQ(ended.code, 0) << ended.output;
  std::set<std::uint64_t> checksums;
  for (const char* worker : {"w0", "w1", "w2"}) {
    const auto said = farewell_of(worker);
    EXPECT_TRUE(said.succeeded) << said.reason;
    checksums.insert(said.parameter_checksum);
    EXPECT_THAT(contents_of(run().path() + "/logs/" + worker + ".log"), HasSubstr("exchange_planned by=servers"));
  }
  EXPECT_EQ(checksums.size(), 1U) << "the workers ended with different parameters";
}

TEST_F(UndisturbedRun, SumsThroughHostsThatTrainNothing) {
  write_file({.slowdowns = {1, 1},
              .epochs = 1,
              .training = "exchange = \"parameter-server\"\n",
              .arbitrator = "policy = \"goodput\"\n",
              .cluster = patient_cluster,
              .servers = 2});
  const auto ended = start_local().wait();
  ASSERT_EQ(ended.code, 0) << ended.output;
  expect_whole_training({"w0", "w1"}, 6000);
  EXPECT_THAT(contents_of(run().summary()), HasSubstr("\"workers\": 2"));
  EXPECT_THAT(generations().front().members, ::testing::ElementsAre("w0", "w1", "s0", "s1"));
  for (const char* server : {"s0", "s1"}) {
    const auto log = contents_of(run().log(server));
    EXPECT_THAT(log, HasSubstr("exchange_planned by=servers"));
    EXPECT_THAT(log, HasSubstr("host_ended reason=\"the workers have ended training\""));
  }
  std::string told;
  for (const auto& event : rows<ledger::event>()) {
    EXPECT_NE(event.event, ledger::event_kind::lost) << event.host;
    if (event.event == ledger::event_kind::exchange)
      told += event.text;
  }
  EXPECT_THAT(told, HasSubstr("gradients by servers: a MB takes"));
}

/// A worker whose connection was probed or made in an unlucky order was once lost at joining; and an actor that nobody
/// ended once kept the arbitrator's host for five seconds.
TEST_F(UndisturbedRun, JoinsEightWorkersEveryTimeAndEndsAtOnce) {
  for (int round = 0; round < 3; ++round) {
    write_file({.slowdowns = std::vector<double>(8, 1),
                .epochs = 0.3,
                .arbitrator = "policy = \"goodput\"\n",
                .cluster = patient_cluster});
    const auto ended = start({"local", "--cluster", file(), "--out", run().path() + std::to_string(round)}).wait();
    EXPECT_EQ(ended.code, 0) << ended.output;
    const auto ledger = contents_of(run().path() + std::to_string(round) + "/windows.jsonl");
    EXPECT_THAT(ledger, HasSubstr("all workers are here"));
    EXPECT_THAT(ledger, Not(HasSubstr("\"event\":\"lost\"")));
    EXPECT_THAT(ledger, Not(HasSubstr("\"event\":\"rejoined\"")));
    for (const auto& [path, log] : files_below(run().path() + std::to_string(round) + "/logs"))
      EXPECT_THAT(log, Not(HasSubstr("actors_still_running"))) << path;
  }
}

} // namespace
} // namespace dynamix::cluster_test
