/// The launcher against a fake dynamix-node, a shell script that ends in the ways that real ones do on bad days.
/// tests/cluster runs the real program.

#include "ledger/codec.hpp"
#include "node/launch/launcher.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <thread>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class Launcher : public ::testing::Test {
protected:
  Launcher() {
    EXPECT_EQ(run_.create(), "");
    for (std::size_t i = 0; i < file_.hosts.size(); ++i)
      file_.hosts[i].roles = {i == 0 ? cluster::role::arbitrator : cluster::role::worker};
    cluster::host third = file_.hosts[1];
    third.name = "cy";
    file_.hosts.push_back(third); // ada arbitrates, ben and cy work
  }

  /// Runs the cluster with `script` in the place of each host's process; $name is the host's.
  launch_outcome launch_with(const std::string& script, std::stop_token stop = {}, bool ledger_exists = false) {
    const std::string program = directory_.path() + "/program";
    std::string lines;
    for (const auto& row : sample_rows())
      lines += ledger::to_json_line(row) + "\n";
    EXPECT_EQ(storage::write_file_atomically(ledger_exists ? run_.ledger() : directory_.path() + "/rows", lines), "");
    const auto back = ledger::to_json_line({7, ledger::event{ledger::event_kind::rejoined, "ben", ""}}) + "\n";
    EXPECT_EQ(storage::write_file_atomically(directory_.path() + "/back", back), "");
    EXPECT_EQ(storage::write_file_atomically(
                  program, "#!/bin/sh\nname=$5\nrows=" + directory_.path() + "/rows\nback=" + directory_.path() +
                               "/back\nledger=" + run_.ledger() + "\nran=" + directory_.path() + "\n" + script),
              "");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    live_output live(printed_, {.redraw = false, .interval = std::chrono::milliseconds(0)});
    return launch(
        {.file = file_, .run = run_, .program = program, .resume = resume_, .observer = observer_, .hurry = hurry_},
        live, stop);
  }
  /// What a host's processes have written into a file of its name.
  std::string said_by(const std::string& host) const {
    std::string said;
    EXPECT_EQ(storage::read_file(directory_.path() + "/" + host, 10'000, said), "");
    return said;
  }

  temporary_directory directory_;
  run_directory run_{directory_.path() + "/run"};
  cluster::cluster_file file_ = pair_file();
  bool resume_ = false;
  launch_observer* observer_ = nullptr;
  std::stop_token hurry_;
  std::ostringstream printed_;
};

TEST_F(Launcher, RunsEveryHostWithItsNameAndThreads) {
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

TEST_F(Launcher, ShowsTheProgressThatTheLedgerTells) {
  const auto outcome = launch_with("if [ $name = ada ]; then cp $rows $ledger; fi\n"
                                   "until [ -s $ledger ]; do sleep 0.05; done; sleep 1");
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
  EXPECT_THAT(printed_.str(), HasSubstr("epoch 1/2  15 %  500 samples/s"));
}

// What follows a death depends on whether training had begun, which ada's ledger tells.
const std::string begin = "echo $6 >> $ran/$name\n"
                          "if [ $name = ada ]; then cat $rows >> $ledger; fi\n"
                          "until [ -s $ledger ]; do sleep 0.05; done\n"
                          "lives() { [ \"$(cat $ran/$1 | wc -l)\" -ge $2 ]; }\n";

TEST_F(Launcher, StopsTheOthersWhenAWorkerDiesBeforeTraining) {
  const auto outcome = launch_with("if [ $name = ben ]; then echo no such file; exit 2; fi; exec sleep 60");
  EXPECT_THAT(outcome.error, HasSubstr("host \"ben\" died (exit code 2) before training began"));
  EXPECT_EQ(outcome.last_words, "The end of " + run_.log("ben") + ":\n    no such file\n");
  EXPECT_FALSE(outcome.succeeded);
  EXPECT_THAT(outcome.restarts, IsEmpty());
}

TEST_F(Launcher, TakesAnEarlierLifeOfTheRunForNoTraining) {
  resume_ = true;
  const auto outcome = launch_with("if [ $name = ben ]; then sleep 0.5; exit 2; fi; exec sleep 60", {}, true);
  EXPECT_THAT(outcome.error, HasSubstr("host \"ben\" died (exit code 2) before training began"));
}

TEST_F(Launcher, StartsAWorkerAgainThatDiedInTraining) {
  const auto outcome = launch_with(begin + "case $name$6 in\n"
                                           "ben--out) kill -9 $$;;\n"
                                           "ben--resume) cat $back >> $ledger;;\n"
                                           "*) until grep -q rejoined $ledger; do sleep 0.1; done;;\nesac\nsleep 1");
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
  EXPECT_EQ(said_by("ben"), "--out\n--resume\n");
  EXPECT_EQ(said_by("cy"), "--out\n");
  EXPECT_THAT(outcome.restarts, ElementsAre(Pair("ben", 1U)));
  EXPECT_THAT(printed_.str(), HasSubstr("warning: ben died (signal 9, Killed); restarting (1 of 5 within 30 s)"));
  EXPECT_THAT(printed_.str(), HasSubstr("ben is back after "));
  EXPECT_THAT(outcome.warnings, IsEmpty());
}

/// ben leaves in order; his process and cy's do this afterwards.
class LauncherLeftByOne : public Launcher {
protected:
  launch_outcome leave(const std::string& ben_then, const std::string& cy_then) {
    auto said = farewell(1);
    said.succeeded = false;
    said.reason = "left: its host was asked to end, after step 20";
    EXPECT_EQ(storage::write_file_atomically(directory_.path() + "/said", ledger::to_json(said, {})), "");
    return launch_with(begin +
                       "case $name in\n"
                       "ben) cp $ran/said " +
                       run_.worker("ben") + "; touch $ran/gone\n" + ben_then +
                       ";;\ncy) until [ -e $ran/gone ]; do sleep 0.05; done; echo $$ > $ran/cy.pid\n" + cy_then +
                       ";;\nesac\nsleep 1");
  }
  const std::string until_cy_has_ended =
      "until [ -s $ran/cy.pid ]; do sleep 0.05; done\n"
      "while [ -d /proc/$(cat $ran/cy.pid) ]; do sleep 0.05; done; sleep 0.5; exit 0";
};

TEST_F(LauncherLeftByOne, GoesOnWithoutItAndDoesNotStartItAgain) {
  const auto outcome = leave("exit 0", "sleep 1");
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
  EXPECT_EQ(said_by("ben"), "--out\n");
  EXPECT_THAT(outcome.restarts, IsEmpty());
  EXPECT_THAT(outcome.warnings, IsEmpty());
  EXPECT_THAT(printed_.str(), HasSubstr("ben has left: its process was asked to end (SIGTERM); the others go on"));
}

TEST_F(LauncherLeftByOne, TellsItAlsoWhenItsProcessOutlivesTheTraining) {
  const auto outcome = leave(until_cy_has_ended, "exit 0");
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
  EXPECT_THAT(outcome.warnings, IsEmpty());
  EXPECT_THAT(printed_.str(), HasSubstr("ben has left: its process was asked to end (SIGTERM); the others have come"));
}

/// The listed workers leave in order; ada runs on, and can be stopped as ever.
TEST_F(Launcher, LeavesTheLastWordToTheArbitratorWhileGuestsTrain) {
  file_.membership = cluster::membership_kind::open;
  file_.workers_max = 4;
  auto said = farewell(1);
  said.succeeded = false;
  said.reason = "left: its host was asked to end, after step 20";
  for (const char* name : {"ben", "cy"}) {
    said.host = name;
    ASSERT_EQ(storage::write_file_atomically(run_.worker(name), ledger::to_json(said, {})), "");
  }
  ledger::window window{.key = {1, 4}, .generation = 2, .policy_version = 1, .decided = false};
  window.workers = {worker(report(2, 4, 64), {}, 64)};
  window.workers.front().report.host = "guest";
  ASSERT_EQ(storage::write_file_atomically(directory_.path() + "/guest", ledger::to_json_line({8, window}) + "\n"), "");
  std::stop_source stop;
  const std::jthread stopper([&](const std::stop_token& done) {
    while (!done.stop_requested() && !std::filesystem::exists(directory_.path() + "/alone"))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    stop.request_stop();
  });
  const auto outcome =
      launch_with(begin + "echo $$ > $ran/$name.new; mv $ran/$name.new $ran/$name.pid\n"
                          "if [ $name != ada ]; then until [ -e $ran/told ]; do sleep 0.05; done; exit 0; fi\n"
                          "trap 'touch $ran/asked; exit 0' INT; cat $ran/guest >> $ledger; touch $ran/told\n"
                          "for other in ben cy; do until [ -s $ran/$other.pid ]; do sleep 0.05; done\n"
                          "while [ -d /proc/$(cat $ran/$other.pid) ]; do sleep 0.05; done; done\n"
                          "sleep 0.5; touch $ran/alone; while :; do sleep 0.05; done",
                  stop.get_token());
  EXPECT_THAT(outcome.warnings, IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(directory_.path() + "/asked")) << "it was terminated";
}

TEST_F(Launcher, GivesAWorkerUpThatDiesTooOftenAndGoesOnWithTheRest) {
  const auto outcome =
      launch_with(begin + "if [ $name = ben ]; then echo $$ > $ran/ben.pid; echo out of memory; exit 7; fi\n"
                          "until lives ben 6; do sleep 0.1; done\n"
                          "while [ -d /proc/$(cat $ran/ben.pid) ]; do sleep 0.1; done; sleep 1");
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
  EXPECT_THAT(outcome.restarts, ElementsAre(Pair("ben", 5U)));
  EXPECT_THAT(outcome.given_up, ElementsAre("ben"));
  EXPECT_THAT(outcome.warnings,
              ElementsAre("ben died (exit code 7) too often and is given up; the run goes on without it"));
  EXPECT_THAT(printed_.str(), HasSubstr("restarting (5 of 5 within 30 s)"));
}

TEST_F(Launcher, GivesAWorkerUpThatCannotBeStartedAgain) {
  struct : launch_observer { // else the others would have to guess when
    void look(host_processes& hosts, const std::vector<ledger::row>& /*rows*/, bool /*training*/) override {
      given_up = given_up || hosts.given_up("ben");
    }
    std::string ended(const host_end& /*end*/) override { return ""; }
    bool over() const override { return given_up; }
    bool given_up = false;
  } observer;
  observer_ = &observer;
  const auto outcome = launch_with("trap 'exit 0' INT\n" + begin + "if [ $name = ben ]; then rm " + run_.log("ben") +
                                   "; mkdir " + run_.log("ben") + "; exit 7; fi\nwhile :; do sleep 0.05; done");
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
  EXPECT_THAT(outcome.given_up, ElementsAre("ben"));
  EXPECT_THAT(outcome.warnings, ElementsAre(AllOf(HasSubstr("ben could not be started, too many times (cannot open "),
                                                  HasSubstr(") and is given up; the run goes on"))));
}

TEST_F(Launcher, EndsWhenTheLastWorkerIsGivenUp) {
  file_.hosts.pop_back(); // ben alone works
  const auto outcome = launch_with(begin + "if [ $name = ada ]; then exec sleep 60; fi\n"
                                           "echo out of memory; exit 7");
  EXPECT_FALSE(outcome.succeeded);
  EXPECT_THAT(outcome.error, HasSubstr("host \"ben\" died (exit code 7) 6 s into training, in or after window 3"));
  EXPECT_THAT(outcome.last_words, HasSubstr("    out of memory\n"));
  EXPECT_THAT(outcome.given_up, ElementsAre("ben"));
}

TEST_F(Launcher, StartsTheArbitratorAgainWhileTrainingGoesOn) {
  const auto outcome = launch_with(begin + "if [ $name$6 = ada--out ]; then kill -9 $$; fi\n"
                                           "until lives ada 2; do sleep 0.1; done; sleep 1");
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
  EXPECT_EQ(said_by("ada"), "--out\n--resume\n");
  EXPECT_THAT(printed_.str(), HasSubstr("warning: ada died (signal 9, Killed); restarting (1 of 5 within 30 s); "
                                        "training goes on without decisions"));
  EXPECT_THAT(printed_.str(), HasSubstr("ada is back after "));
}

TEST_F(Launcher, StartsNobodyAgainOnceAWorkerHasEndedWell) {
  const auto outcome =
      launch_with(begin + "case $name in\n"
                          "ben) until [ -s $ran/cy.pid ]; do sleep 0.1; done\n"
                          "while [ -d /proc/$(cat $ran/cy.pid) ]; do sleep 0.1; done; sleep 1; exit 1;;\n"
                          "cy) echo $$ > $ran/cy.pid;;\nesac\nsleep 1");
  EXPECT_THAT(outcome.error, HasSubstr("host \"ben\" died (exit code 1)"));
  EXPECT_EQ(said_by("ben"), "--out\n");
}

TEST_F(Launcher, TakesHostsWhoseTrainingEndedBeforeItsEndForNoDeaths) {
  const auto outcome = launch_with(begin + "if [ $name = ada ]; then sleep 0.5; fi; exit 3");
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(outcome.restarts, IsEmpty());
  EXPECT_TRUE(outcome.succeeded) << "what the workers have said tells the rest";
}

TEST_F(Launcher, PassesAStopOnToEveryHost) {
  std::stop_source stop;
  stop.request_stop();
  const auto outcome =
      launch_with("trap 'echo asked; exit 0' INT; touch $ran/$name; while :; do sleep 0.05; done", stop.get_token());
  EXPECT_TRUE(outcome.stopped);
  EXPECT_FALSE(outcome.succeeded);
}

TEST_F(Launcher, IsNotStoppedByWhoAsksOnceAllHasBeenDone) {
  auto last = farewell(0);
  last.end = messages::farewell_end::completed;
  for (const char* name : {"ben", "cy"}) {
    last.host = name;
    ASSERT_EQ(storage::write_file_atomically(run_.worker(name), ledger::to_json(last, {})), "");
  }
  std::stop_source stop;
  stop.request_stop();
  const auto outcome = launch_with("trap 'exit 0' INT; while :; do sleep 0.05; done", stop.get_token());
  EXPECT_FALSE(outcome.stopped);
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
}

TEST_F(Launcher, EndsAtOnceWhoeverStopsWhenItIsToHurry) {
  std::stop_source hurry;
  hurry.request_stop();
  hurry_ = hurry.get_token();
  const auto outcome = launch_with("trap '' INT; exec sleep 60", hurry.get_token());
  EXPECT_TRUE(outcome.stopped);
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(outcome.warnings, IsEmpty()) << "nobody was late";
}

TEST_F(Launcher, EndsTrainingInOrderWhenItsObserverSaysThatItIsOver) {
  struct : launch_observer {
    void look(host_processes& /*hosts*/, const std::vector<ledger::row>& /*rows*/, bool training) override {
      begun = begun || training;
    }
    std::string ended(const host_end& /*end*/) override { return ""; }
    bool over() const override { return begun; }
    bool begun = false;
  } observer;
  observer_ = &observer;
  const auto outcome = launch_with("trap 'exit 0' INT\n" + begin + "while :; do sleep 0.05; done");
  EXPECT_TRUE(outcome.succeeded) << outcome.error;
  EXPECT_FALSE(outcome.stopped) << "nobody interrupted it";
  EXPECT_THAT(printed_.str(), HasSubstr("the faults are over; training ends at the next window boundary"));
}

/// ben dies in training and is started again; the stop comes when his new process has done `then`.
class LauncherStoppedInARestart : public Launcher {
protected:
  launch_outcome stop_after(const std::string& then) {
    std::stop_source stop;
    const std::jthread stopper([&](const std::stop_token& done) {
      while (!done.stop_requested() && !std::filesystem::exists(directory_.path() + "/ready"))
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      stop.request_stop();
    });
    return launch_with("trap 'exit 0' INT\n" + begin +
                           "case $name$6 in\n"
                           "ben--out) kill -9 $$;;\n"
                           "ben--resume) until lives ada 1 && lives cy 1; do sleep 0.05; done\n" +
                           then + ";;\nesac\nwhile :; do sleep 0.05; done",
                       stop.get_token());
  }
};

TEST_F(LauncherStoppedInARestart, TakesTheEndOfTheNewProcessForNoDeath) {
  const auto outcome = stop_after("trap 'exit 130' INT; touch $ran/ready");
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.stopped);
  EXPECT_THAT(outcome.given_up, ElementsAre("ben"));
}

TEST_F(LauncherStoppedInARestart, NorWhereTheProcessCouldNotHearOfItYet) {
  const auto outcome = stop_after("trap - INT; touch $ran/ready; exec sleep 60");
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.stopped);
}

TEST_F(LauncherStoppedInARestart, NorWhereItWasBackAndHadNoPlaceYet) {
  const auto outcome = stop_after("cat $back >> $ledger; trap 'exit 130' INT; touch $ran/ready");
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.stopped);
}

TEST_F(LauncherStoppedInARestart, StillTellsOfOneThatWasBackAndDiesOfItself) {
  const auto outcome = stop_after("cat $back >> $ledger; sleep 1; trap 'kill -9 $$' INT; touch $ran/ready");
  EXPECT_THAT(outcome.error, HasSubstr("host \"ben\" died (signal 9, Killed)"));
  EXPECT_TRUE(outcome.stopped);
}

TEST_F(Launcher, SaysWhyAHostCannotBeStarted) {
  std::filesystem::remove_all(run_.path() + "/logs");
  EXPECT_THAT(launch_with("exit 0").error, HasSubstr("host \"ada\": cannot open "));
}

TEST(LastLines, AreTheEndOfALog) {
  const temporary_directory directory;
  const std::string path = directory.path() + "/log";
  EXPECT_EQ(last_lines(path, 2), "    (nothing)\n");
  ASSERT_EQ(storage::write_file_atomically(path, std::string("one\ntwo\nth\x1bree\n")), "");
  EXPECT_EQ(last_lines(path, 2), "    two\n    th ree\n");
}

} // namespace
} // namespace dynamix::node
