/// `dynamix-node faults`: real clusters that are broken by a plan, and what the verdict says of them.

#include "storage/atomic_file.hpp"
#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <thread>

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
