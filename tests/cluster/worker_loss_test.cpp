/// Training that ends before its time, by a worker's death or by a person's wish, and goes on from its checkpoint.

#include "tests/cluster/trial.hpp"
#include "trainer/checkpoint.hpp"

#include <nlohmann/json.hpp>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;

class early_end : public trial {
protected:
  void write_slow_file() { write_file({.slowdowns = {10, 10, 10}, .epochs = 1}); }
  trainer::newest_result newest() const { return trainer::newest_checkpoint(run().checkpoints()); }

  /// Goes on from the newest checkpoint to the end.
  void expect_resume() {
    const auto from = newest();
    ASSERT_NE(from.path, "");
    const auto windows_before = windows().size();
    const auto resumed = end_of({"local", "--resume", run().path()});
    EXPECT_EQ(resumed.code, 0) << resumed.output;
    const auto summary = nlohmann::json::parse(contents_of(run().summary()));
    EXPECT_EQ(summary["succeeded"], true);
    EXPECT_EQ(summary["reason"], "epochs completed");
    EXPECT_EQ(summary["restarts"], 1);
    EXPECT_GT(summary["steps"], from.state.step);
    EXPECT_GE(summary["samples"], 6000);
    EXPECT_EQ(summary["decisions"]["lost"], 0);
    const auto all = windows();
    ASSERT_GT(all.size(), windows_before);
    EXPECT_GE(all[windows_before].workers.front().report.first_step, from.state.step) << "it trained steps twice";
    for (const char* worker : {"w1", "w2"})
      EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum);
  }
};

TEST_F(early_end, of_one_worker_ends_all_with_its_name_and_a_checkpoint_to_resume_from) {
  write_slow_file();
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  ASSERT_TRUE(local.signal_host("w1", SIGKILL)) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, HasSubstr("error: host \"w1\" died (signal 9, Killed)"));
  EXPECT_THAT(ended.output, HasSubstr("dynamix-node local --resume " + run().path()));
  EXPECT_EQ(nlohmann::json::parse(contents_of(run().summary()))["succeeded"], false);
  EXPECT_GT(newest().state.step, 0U);
  expect_resume();
}

TEST_F(early_end, of_one_worker_ends_the_others_with_a_reason) {
  write_slow_file();
  auto arbitrator = start_host("hub");
  auto first = start_host("w0");
  auto second = start_host("w1");
  auto third = start_host("w2");
  ASSERT_TRUE(wait_for_windows(3)) << first.said();
  second.signal(SIGKILL);
  second.wait();
  EXPECT_EQ(arbitrator.wait().code, 1);
  EXPECT_THAT(arbitrator.said(), HasSubstr("lost w1 in mid-training"));
  const std::pair<std::string, program*> survivors[] = {{"w0", &first}, {"w2", &third}};
  for (const auto& [host, survivor] : survivors) {
    EXPECT_EQ(survivor->wait().code, 1);
    EXPECT_THAT(survivor->said(), HasSubstr("lost contact with a worker during step"));
    const auto said = farewell_of(host);
    EXPECT_FALSE(said.succeeded);
    trainer::checkpoint own;
    const auto path = trainer::checkpoint_path(run().checkpoints(), said.steps);
    EXPECT_EQ(trainer::read_checkpoint(path.substr(0, path.rfind('.')) + "-" + host + ".safetensors", own), "");
    EXPECT_EQ(own.step, said.steps);
  }
}

TEST_F(early_end, that_was_asked_for_is_graceful) {
  write_slow_file();
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
  EXPECT_EQ(newest().state.step % 2, 0U) << "in the middle of a window";
  expect_resume();
}

} // namespace
} // namespace dynamix::cluster_test
