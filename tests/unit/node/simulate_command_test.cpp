#include "node/launch/run_directory.hpp"
#include "node/reports/run_records.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/command_answer.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

namespace dynamix::node {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string scenario_file = shipped("scenarios/train/straggler-8.toml");

/// A run of few windows.
std::vector<std::string> simulate(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"simulate", "--cluster", scenario_file, "--set", "training.epochs=0.2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Simulate, PrintsTheRunAndWhatCameOfIt) {
  const auto said = ask(simulate({"--policy", "goodput", "--quiet"}));
  ASSERT_EQ(said.code, exit_done) << said.err;
  EXPECT_THAT(said.out, HasSubstr("  seed 1: target not reached in "));
  EXPECT_THAT(said.out, HasSubstr("mean batch"));
  EXPECT_THAT(said.out, ContainsRegex("\n  slow +3\\.0 .* %( +[0-9]+\\.[0-9][0-9]){4}\n")) << "how long its steps took";
  for (const char* row : {"final accuracy", "samples/s", "decisions", "interventions", "windows per second"})
    EXPECT_THAT(said.out, HasSubstr(row));
}

TEST(Simulate, SaysThatItDecidesForATreeAsASingleArbitratorDoes) {
  EXPECT_EQ(ask(simulate({"--policy", "static", "--quiet"})).err, "");
  const auto said = ask(
      simulate({"--policy", "static", "--quiet", "--set", "arbitrator.topology=tree", "--set", "arbitrator.fanout=4"}));
  ASSERT_EQ(said.code, exit_done) << said.err;
  EXPECT_THAT(said.err, HasSubstr("note: the cluster has a tree of arbitrators"));
}

TEST(Simulate, TheSameSeedGivesTheSameRunAndAnotherOneAnother) {
  const auto seconds_of = [](const std::string& seed) {
    const auto said = ask(simulate({"--policy", "lb-bsp", "--json", "--seed", seed}));
    EXPECT_EQ(said.code, exit_done) << said.err;
    return json::parse(said.out)[0]["seconds"].get<double>();
  };
  EXPECT_EQ(seconds_of("4"), seconds_of("4"));
  EXPECT_NE(seconds_of("4"), seconds_of("5"));
}

TEST(Simulate, LeavesARunThatReportAndExplainRead) {
  const temporary_directory directory;
  const run_directory run(directory.path() + "/run");
  const auto said = ask(simulate({"--policy", "goodput", "--quiet", "--out", run.path()}));
  ASSERT_EQ(said.code, exit_done) << said.err;
  std::string error;
  const auto records = read_run(run, error);
  ASSERT_EQ(error, "");
  const auto summary = summarise(records);
  EXPECT_TRUE(summary.succeeded) << summary.reason;
  EXPECT_EQ(summary.decisions.lost, 0U);
  EXPECT_GT(summary.decisions.applied, 0U);
  EXPECT_EQ(summary.workers.size(), 8U);
  EXPECT_FALSE(records.evaluations.empty());
  std::string text;
  ASSERT_EQ(storage::read_file(run.summary(), 1U << 20, text), "");
  EXPECT_EQ(json::parse(text)["policy"], "goodput");
  EXPECT_TRUE(std::filesystem::exists(run.epochs()));
  EXPECT_EQ(ask({"report", "--run", run.path()}).code, exit_done);
  const auto explained = ask({"explain", "--run", run.path(), "--window", "2"});
  EXPECT_EQ(explained.code, exit_done) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("batch "));

  const auto again = ask(simulate({"--out", run.path()}));
  EXPECT_EQ(again.code, exit_refused);
  EXPECT_THAT(again.err, HasSubstr("exists and is not empty"));
}

TEST(Simulate, GivesSeveralSeedsADirectoryEachAndAnInterval) {
  const temporary_directory directory;
  const auto said =
      ask(simulate({"--policy", "static", "--quiet", "--seed", "3", "--seeds", "2", "--out", directory.path() + "/o"}));
  ASSERT_EQ(said.code, exit_done) << said.err;
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/o/seed-3/summary.json"));
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/o/seed-4/windows.jsonl"));
  EXPECT_THAT(said.out, HasSubstr("result, mean ± 95 % interval"));
}

TEST(Simulate, APolicyInModeTrainLearnsAsItGoes) {
  const temporary_directory directory;
  const run_directory run(directory.path() + "/run");
  const auto said = ask(simulate({"--policy", "ppo", "--mode", "train", "--set", "ppo.horizon=4", "--quiet", "--set",
                                  "training.epochs=20", "--set", "arbitrator.guard=false", "--out", run.path()}));
  ASSERT_EQ(said.code, exit_done) << said.err;
  std::string error;
  const auto records = read_run(run, error);
  EXPECT_GT(summarise(records).policy_version, 1U) << "later windows are decided by later versions";
}

TEST(Simulate, RecordsChangesInTheRunsClusterFile) {
  const temporary_directory run;
  const auto said = ask(simulate(
      {"--quiet", "--out", run.path() + "/run", "--set", "cluster.seed=11", "--set", "hosts.slow.compute_slowdown=2"}));
  ASSERT_EQ(said.code, 0) << said.err;
  const auto kept = cluster::read_cluster_file(run.path() + "/run/cluster.toml");
  ASSERT_TRUE(kept.errors.empty());
  EXPECT_EQ(kept.file.seed, 11U);
  ASSERT_EQ(kept.file.find("slow")->emulate.size(), 1U);
  EXPECT_EQ(kept.file.find("slow")->emulate[0].compute_slowdown, 2);
}

TEST(Simulate, RefusesWithThePlaceAndCode2) {
  const temporary_directory directory;
  const std::string path = directory.path() + "/pair.toml";
  auto file = pair_file();
  file.simulation.workload = shipped("workloads/cnn.toml");
  ASSERT_EQ(storage::write_file_atomically(path, cluster::to_toml(file)), "");
  const auto without_profile = ask({"simulate", "--cluster", path});
  EXPECT_EQ(without_profile.code, exit_refused);
  EXPECT_THAT(without_profile.err, StartsWith(path + ":"));
  EXPECT_THAT(without_profile.err, HasSubstr("host \"ada\" has no device profile"));

  const auto unknown = ask(simulate({"--policy", "magic"}));
  EXPECT_EQ(unknown.code, exit_refused);
  EXPECT_THAT(unknown.err, HasSubstr("\"lb-bsp\""));
  const auto no_policy = ask(simulate({"--policy", "ppo", "--policy-file", directory.path() + "/none"}));
  EXPECT_EQ(no_policy.code, exit_refused);
  EXPECT_THAT(no_policy.err, HasSubstr(directory.path() + "/none"));
  EXPECT_THAT(ask({"simulate", "--cluster", directory.path()}).err, HasSubstr("simulate takes one file"));
}

TEST(Simulate, RunsAnotherPolicyWithoutTheParametersOfTheFilesOwn) {
  for (const char* policy : {"static", "ppo-simple"}) {
    const auto said = ask({"simulate", "--cluster", shipped("clusters/local-4.toml"), "--policy", policy, "--quiet",
                           "--set", "training.epochs=0.05"});
    EXPECT_EQ(said.code, 0) << said.err;
  }
  const auto said = ask({"simulate", "--cluster", shipped("clusters/local-4.toml"), "--policy", "ppo-simple",
                         "--policy-file", shipped("policies/ppo.dynamix")});
  EXPECT_EQ(said.code, 2) << "asked for by name, it is an error";
  EXPECT_THAT(said.err, HasSubstr("it is a \"ppo\" policy"));
}

} // namespace
} // namespace dynamix::node
