/// The launcher against a fake dynamix-node, a shell script that ends in the ways that real ones do on bad days.
/// tests/cluster runs the real program.

#include "node/launcher.hpp"
#include "storage/atomic_file.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class launcher : public ::testing::Test {
protected:
  launcher() {
    EXPECT_EQ(run_.create(), "");
    for (std::size_t i = 0; i < file_.hosts.size(); ++i)
      file_.hosts[i].roles = {i == 0 ? cluster::role::arbitrator : cluster::role::worker};
    cluster::host third = file_.hosts[1];
    third.name = "cy";
    file_.hosts.push_back(third); // ada arbitrates, ben and cy work
  }

  /// Runs the cluster with `script` in the place of each host's process; $name is the host's.
  launch_outcome launch_with(const std::string& script, std::stop_token stop = {}) {
    const std::string program = directory_.path() + "/program";
    std::string lines;
    for (const auto& row : sample_rows())
      lines += actors::to_json_line(row) + "\n";
    EXPECT_EQ(storage::write_file_atomically(directory_.path() + "/rows", lines), "");
    EXPECT_EQ(storage::write_file_atomically(program, "#!/bin/sh\nname=$5\nrows=" + directory_.path() +
                                                          "/rows\nledger=" + run_.ledger() +
                                                          "\nran=" + directory_.path() + "\n" + script),
              "");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    live_output live(printed_, {.redraw = false, .interval = std::chrono::milliseconds(0)});
    return launch({.file = file_, .run = run_, .program = program}, live, stop);
  }

  temporary_directory directory_;
  run_directory run_{directory_.path() + "/run"};
  cluster::cluster_file file_ = pair_file();
  std::ostringstream printed_;
};

TEST_F(launcher, runs_every_host_with_its_name_and_threads) {
  file_.training.threads = 3;
  const auto outcome = launch_with("echo \"$@ $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS\"");
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
  for (const auto& host : file_.hosts) {
    std::string said;
    ASSERT_EQ(storage::read_file(run_.log(host.name), 10'000, said), "");
    EXPECT_EQ(said, "run --cluster " + run_.cluster_file() + " --name " + host.name + " --out " + run_.path() +
                        " --log-to-stderr 3 3\n");
  }
}

TEST_F(launcher, shows_the_progress_that_the_ledger_tells) {
  const auto outcome = launch_with("if [ $name = ada ]; then cp $rows $ledger; fi; sleep 1");
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
  EXPECT_THAT(printed_.str(), HasSubstr("epoch 1/2  15 %  500 samples/s"));
}

TEST_F(launcher, names_the_worker_that_died_and_its_last_words) {
  const auto outcome = launch_with("case $name in\n"
                                   "ada) cp $rows $ledger; sleep 1.5; exit 1;;\n"
                                   "ben) sleep 0.7; echo out of memory; kill -9 $$;;\n"
                                   "cy) sleep 1; echo lost contact; exit 1;;\nesac");
  EXPECT_FALSE(outcome.succeeded);
  EXPECT_THAT(outcome.error, HasSubstr("host \"ben\" died (signal 9, Killed) 6 s into training, in or after window 3"));
  EXPECT_THAT(outcome.last_words, HasSubstr("    out of memory\n"));
  EXPECT_THAT(outcome.last_words, Not(HasSubstr("lost contact"))) << "that is a consequence";
}

TEST_F(launcher, stops_the_others_when_a_worker_dies_before_training) {
  const auto outcome = launch_with("if [ $name = ben ]; then exit 2; fi; exec sleep 60");
  EXPECT_THAT(outcome.error, HasSubstr("host \"ben\" died (exit code 2) before training began"));
}

TEST_F(launcher, goes_on_when_only_the_arbitrator_dies) {
  const auto outcome = launch_with("if [ $name = ada ]; then cp $rows $ledger; sleep 0.7; kill -9 $$; fi\nsleep 1.5");
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
  EXPECT_THAT(outcome.warnings,
              ElementsAre("the arbitrator ada died (signal 9, Killed); training goes on with the last batch sizes"));
  EXPECT_THAT(printed_.str(), HasSubstr("warning: the arbitrator ada died"));
}

TEST_F(launcher, passes_a_stop_on_to_every_host) {
  std::stop_source stop;
  stop.request_stop();
  const auto outcome =
      launch_with("trap 'echo asked; exit 0' INT; touch $ran/$name; while :; do sleep 0.05; done", stop.get_token());
  EXPECT_TRUE(outcome.stopped);
  EXPECT_FALSE(outcome.succeeded);
}

TEST_F(launcher, says_why_a_host_cannot_be_started) {
  std::filesystem::remove_all(run_.path() + "/logs");
  EXPECT_THAT(launch_with("exit 0").error, HasSubstr("host \"ada\": cannot open "));
}

TEST(last_lines, are_the_end_of_a_log) {
  const temporary_directory directory;
  const std::string path = directory.path() + "/log";
  EXPECT_EQ(last_lines(path, 2), "    (nothing)\n");
  ASSERT_EQ(storage::write_file_atomically(path, std::string("one\ntwo\nth\x1bree\n")), "");
  EXPECT_EQ(last_lines(path, 2), "    two\n    th ree\n");
}

} // namespace
} // namespace dynamix::node
