/// `dynamix-node faults`: real clusters that are broken by a plan, and what the verdict says of them.

#include "storage/atomic_file.hpp"
#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <unistd.h>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;

class Faults : public trial {
protected:
  /// Slow enough that most of the training is left after the first windows.
  void write_slow_file(double epochs) { write_file({.slowdowns = {10, 10, 10}, .epochs = epochs}); }

  /// `dynamix-node faults` into `run()`.
  ended_program end_under(const std::string& plan) const {
    const auto path = directory_.path() + "/plan.toml";
    EXPECT_EQ(storage::write_file_atomically(path, "[plan]\ncluster = \"cluster.toml\"\ncompare = false\n" + plan), "");
    return end_of({"faults", "--plan", path, "--out", run().path()});
  }
  nlohmann::json verdict() const { return nlohmann::json::parse(contents_of(run().summary()))["faults"]; }
};

TEST_F(Faults, KillAWorkerAndFindTheRunClean) {
  write_slow_file(1000);
  const auto ended = end_under("after_last_fault_seconds = 0.5\n"
                               "[[fault]]\nkind = \"kill\"\ntarget = \"rank:0\"\nat_window = 3\n"
                               "[[fault]]\nkind = \"crash\"\ntarget = \"w2\"\nat_window = 4\n");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("fault 1: kill w0"));
  EXPECT_THAT(ended.output, HasSubstr("verdict: clean"));
  const auto judged = verdict();
  EXPECT_EQ(judged["clean"], true);
  EXPECT_EQ(judged["kinds"]["kill"]["recovered"], 1);
  EXPECT_EQ(judged["kinds"]["crash"]["bit"], 1);
  EXPECT_LE(judged["all"]["steps_lost"], 2);
  EXPECT_EQ(judged["all"]["detection_seconds"]["count"], 2);
  EXPECT_THAT(judged["injected"][0]["evidence"].get<std::string>(), HasSubstr("ended with signal 9"));
  EXPECT_THAT(judged["injected"][1]["evidence"].get<std::string>(), HasSubstr("ended with signal 11"));
}

TEST_F(Faults, CutAWorkerOffUntilTheOthersGoOnWithoutIt) {
  write_slow_file(1000);
  const auto ended =
      end_under("after_last_fault_seconds = 0.5\n"
                "[[fault]]\nkind = \"partition\"\ntarget = \"w1\"\nat_window = 3\nduration_seconds = 4\n");
  EXPECT_EQ(ended.code, 0) << ended.output;
  const auto judged = verdict();
  EXPECT_EQ(judged["kinds"]["partition"]["bit"], 1);
  EXPECT_EQ(judged["kinds"]["partition"]["recovered"], 1);
  EXPECT_EQ(judged["all"]["detection_seconds"]["count"], 1) << "it was lost";
}

TEST_F(Faults, InNamespacesAreSkippedWithoutRootAndJsonStaysJson) {
  write_file({.slowdowns = {1, 1, 1}});
  using std::filesystem::perms;
  for (const auto& path : {directory_.path(), small_dataset(), file()})
    std::filesystem::permissions(path, perms::others_read | perms::others_exec, std::filesystem::perm_options::add);
  const std::string nobody = geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "";
  const auto told = directory_.path() + "/told";
  const auto ended = start({"-c", nobody + DYNAMIX_NODE_PROGRAM + " faults --json --plan " + DYNAMIX_SOURCE_DIRECTORY +
                                      "/deployments/faults/split-network.toml --cluster " + file() + " --out " +
                                      run().path() + " 2> " + told},
                           "/bin/sh")
                         .wait();
  EXPECT_EQ(ended.code, 0) << contents_of(told);
  EXPECT_EQ(contents_of(told), "skipped: network namespaces need root\n");
  EXPECT_EQ(nlohmann::json::parse(ended.output), (nlohmann::json{{"skipped", "network namespaces need root"}}));
}

/// As deployments/faults/scripts-40.toml in small: five hosts of eight there, three of two here.
TEST_F(Faults, HitScriptsOfAReplicatedOpenTreeWhoseHostsComeAndGo) {
  const std::string python = DYNAMIX_PYTHON_PROGRAM;
  if (python.empty() || std::system((python + " -c 'import torch, numpy' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no Python has torch and numpy";
  write_file({.slowdowns = {1, 1, 1},
              .dataset = "unused",
              .more = "[supervision]\nmax_restarts = 100\nperiod_ms = 1000\n",
              .training = "trainer = \"client\"\n",
              .replicas = 3,
              .arbitrator = "policy = \"goodput\"\ntopology = \"tree\"\nfanout = 4\n",
              .window_steps = 10,
              .cluster = patient_cluster + "membership = \"open\"\nworkers_max = 8\n"});
  // So that a window has less than an epoch, whose size the windows then tell.
  replace_in_file("highest = 256\n", "lowest = 2\ninitial = 8\nhighest = 16\n");
  for (const std::string name : {"w0", "w1", "w2"})
    replace_in_file("name = \"" + name + "\"\n", "name = \"" + name + "\"\nworkers = 2\nbind_cores = false\n");
  const auto script = "'" + python + "' -B " DYNAMIX_SOURCE_DIRECTORY "/deployments/scripts/elastic.py ";
  const auto ended = end_under("after_last_fault_seconds = 1\nscript = \"" + script + "6\"\ncheck = \"" + script +
                               "check\"\n"
                               "[limits]\nrecover_seconds = 120\n"
                               "[[fault]]\nkind = \"kill\"\ntarget = \"leader\"\nat_window = 3\n"
                               "[[fault]]\nkind = \"join\"\ntarget = \"guest\"\nworkers = 2\nat_window = 3\n"
                               "[[fault]]\nkind = \"kill\"\ntarget = \"w0/1\"\nat_window = 4\n"
                               "[[fault]]\nkind = \"kill\"\ntarget = \"w1\"\nat_window = 4\n"
                               "[[fault]]\nkind = \"leave\"\ntarget = \"guest\"\nat_window = 4\n");
  ASSERT_EQ(ended.code, 0) << ended.output;
  const auto judged = verdict();
  EXPECT_EQ(judged["kinds"]["join"]["recovered"], 1) << ended.output;
  EXPECT_EQ(judged["kinds"]["kill"]["bit"], 3) << ended.output;
  EXPECT_EQ(judged["kinds"]["leave"]["recovered"], 1) << ended.output;
  EXPECT_THAT(contents_of(run().log("check")), HasSubstr("epochs begun"));
}

TEST_F(Faults, ThatHitNobodyAreNamed) {
  write_slow_file(1);
  const auto ended =
      end_under("[[fault]]\nkind = \"reset\"\ntarget = [\"hub\", \"w0\", \"w1\", \"w2\"]\nat_window = 2\n");
  EXPECT_EQ(ended.code, 1) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("not clean: 1 faults had no effect"));
  EXPECT_EQ(verdict()["clean"], false);
}

TEST_F(Faults, AreRefusedWithTheirPlaceWhenThePlanIsWrong) {
  write_slow_file(1);
  const auto ended = end_under("[[fault]]\nkind = \"kill\"\ntarget = \"w7\"\nat_window = 2\n");
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, HasSubstr("plan.toml:6:10: fault.target is \"w7\"; did you mean \"w0\"?"));
  EXPECT_FALSE(run().exists());
}

TEST_F(Faults, EndTrainingInOrderWhenTheLastIsRecoveredFrom) {
  write_slow_file(1000);
  const auto ended = end_under("after_last_fault_seconds = 0.5\n"
                               "[[fault]]\nkind = \"kill\"\ntarget = \"w1\"\nat_window = 3\n");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("the faults are over; training ends at the next window boundary"));
  EXPECT_EQ(verdict()["kinds"]["kill"]["recovered"], 1);
  EXPECT_EQ(verdict()["interrupted"], false);
}

TEST_F(Faults, AreJudgedAlsoWhenASecondInterruptEndsTheClusterAtOnce) {
  write_slow_file(1000);
  const auto path = directory_.path() + "/plan.toml";
  ASSERT_EQ(storage::write_file_atomically(path, "[plan]\ncluster = \"cluster.toml\"\ncompare = false\n"
                                                 "[[fault]]\nkind = \"hang\"\ntarget = \"w1\"\nat_window = 2\n"
                                                 "duration_seconds = 600\n"),
            "");
  auto broken = start({"faults", "--plan", path, "--out", run().path()});
  ASSERT_TRUE(wait_until([&] { return broken.says("fault 1: hang w1"); })) << broken.said();
  broken.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return broken.says("stopping at the next window boundary"); })) << broken.said();
  std::this_thread::sleep_for(std::chrono::seconds(1)); // signals within half a second are one
  broken.signal(SIGINT);
  const auto ended = broken.wait();
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, HasSubstr("verdict: INTERRUPTED"));
  EXPECT_EQ(verdict()["interrupted"], true);
}

} // namespace
} // namespace dynamix::cluster_test
