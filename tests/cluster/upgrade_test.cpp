/// A cluster whose hosts are restarted one by one with another release. DYNAMIX_OLDER_PROGRAM names the dynamix-node of
/// an earlier one that has a protocol in common (tools/older-program); without it there is nothing to try.

#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <map>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;

/// True: from the older release to this one; false: back.
class RollingRestart : public trial, public ::testing::WithParamInterface<bool> {
protected:
  void SetUp() override {
    const char* older = std::getenv("DYNAMIX_OLDER_PROGRAM");
    if (older == nullptr)
      GTEST_SKIP()
          << "DYNAMIX_OLDER_PROGRAM names no dynamix-node of an earlier release; cluster_upgrade_long builds one";
    before_ = GetParam() ? older : DYNAMIX_NODE_PROGRAM;
    after_ = GetParam() ? DYNAMIX_NODE_PROGRAM : older;
  }
  program& at(const std::string& host) { return hosts_.at(host); }
  void start_before(const std::string& host) { hosts_.emplace(host, start_host(host, "--out", before_)); }
  void start_after(const std::string& host) { hosts_.insert_or_assign(host, start_host(host, "--resume", after_)); }

  std::string before_;
  std::string after_;
  std::map<std::string, program> hosts_;
};

TEST_P(RollingRestart, LosesNoStep) {
  write_file({.slowdowns = {10, 10},
              .epochs = 1000,
              .training = "evaluate_every_epochs = 1000\ncheckpoint_every_epochs = 1000\n",
              .cluster = patient_cluster});
  for (const auto* host : {"hub", "w0", "w1"})
    start_before(host);
  ASSERT_TRUE(wait_for_windows(2)) << at("w0").said();
  for (const auto* worker : {"w0", "w1"}) {
    const auto newest = generations().back().generation;
    at(worker).signal(SIGTERM); // it leaves, and the other goes on
    EXPECT_EQ(at(worker).wait().code, 0) << at(worker).said();
    start_after(worker);
    ASSERT_TRUE(wait_for_generation({"w0", "w1"}, newest)) << at(worker).said();
  }
  if (GetParam()) {
    EXPECT_THAT(at("w1").said(), HasSubstr("protocol=5 waiting for a place")) << "as its arbitrator speaks";
  }
  const auto term = windows().back().key.term;
  at("hub").signal(SIGKILL); // asked in order, the only arbitrator ends the training
  at("hub").wait();
  ASSERT_TRUE(wait_until([&] { return at("w0").says("arbitrator_lost") && at("w1").says("arbitrator_lost"); }));
  start_after("hub");
  EXPECT_TRUE(wait_until([&] { return windows().back().key.term > term; })) << at("hub").said();

  at("hub").signal(SIGTERM);
  for (const auto* host : {"hub", "w0", "w1"}) // an older release says 0
    EXPECT_THAT(at(host).wait().code, testing::AnyOf(0, host == std::string("hub") ? 130 : 3)) << at(host).said();
  EXPECT_EQ(farewell_of("w0").steps, farewell_of("w1").steps);
  EXPECT_EQ(farewell_of("w0").parameter_checksum, farewell_of("w1").parameter_checksum);
  for (const auto& formed : generations())
    EXPECT_EQ(formed.steps_lost, 0U) << "generation " << formed.generation << ": " << formed.reason;
  const auto summary = nlohmann::json::parse(contents_of(run().summary()));
  EXPECT_EQ(summary["samples_dropped"], 0);
  EXPECT_EQ(summary["samples_repeated"], 0);
  for (const auto* key : {"epochs", "generations", "samples", "steps"}) // for benchmarks/results
    RecordProperty(key, summary[key].dump());
}

INSTANTIATE_TEST_SUITE_P(Of, RollingRestart, ::testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "ToThisRelease" : "BackToTheOlder"); });

} // namespace
} // namespace dynamix::cluster_test
