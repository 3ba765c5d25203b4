#include "ledger/codec.hpp"
#include "node/commands/command_line.hpp"
#include "node/launch/keys.hpp"
#include "node/launch/run_directory.hpp"
#include "node/training/loaded_trainer.hpp"
#include "storage/atomic_file.hpp"
#include "telemetry/privileges.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/command_answer.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sched.h>
#include <sstream>
#include <sys/mount.h>
#include <unistd.h>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A cluster file in a directory of its own.
class CommandLine : public ::testing::Test {
protected:
  std::string write(const std::string& text) {
    const std::string path = directory_.path() + "/cluster.toml";
    EXPECT_EQ(storage::write_file_atomically(path, text), "");
    return path;
  }
  std::string write_pair(const std::string& more = "") { return write(cluster::to_toml(pair_file(more))); }

  temporary_directory directory_;
};

TEST_F(CommandLine, RefusesToStartHostsWhereProcIsNotMounted) {
  if (!telemetry::may_administer())
    GTEST_SKIP() << "the mounts of a process cannot be changed here";
  const auto path = write_pair();
  const auto without_proc = [](const std::vector<std::string>& arguments) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0)
      ::_exit(exit_failed);
    const auto refused = ask(arguments);
    std::fputs(refused.err.c_str(), stderr);
    ::_exit(refused.code);
  };
  const std::string remedy = "/proc/self/exe.* mount -t proc proc /proc";
  EXPECT_EXIT(without_proc({"local", "--cluster", path}), ::testing::ExitedWithCode(exit_refused), remedy);
  EXPECT_EXIT(without_proc({"swarm", "--workers", "4"}), ::testing::ExitedWithCode(exit_refused), remedy);
}

TEST_F(CommandLine, OffersHelpEverywhere) {
  EXPECT_THAT(ask({"--help"}).out, HasSubstr("Exit codes: 0 done; 1 the run failed"));
  EXPECT_THAT(ask({"--help"}).out, HasSubstr("130 stopped by a signal"));
  for (const char* command : {"run", "local", "check", "explain", "report", "doctor"}) {
    const auto help = ask({command, "--help"});
    EXPECT_EQ(help.code, exit_done) << command;
    EXPECT_THAT(help.out, HasSubstr(command));
    EXPECT_THAT(help.out, HasSubstr("Options:"));
    EXPECT_EQ(help.err, "");
  }
  const auto version = ask({"--version"});
  EXPECT_EQ(version.code, exit_done);
  EXPECT_THAT(version.out, StartsWith("dynamix-node "));
}

TEST_F(CommandLine, OffersHelpThatFitsATerminalOf100Columns) {
  for (const auto& command : std::vector<std::vector<std::string>>{
           {}, {"run"}, {"exec"}, {"compare"}, {"arbitrators"}, {"generate-scenarios"}, {"keys", "init"}}) {
    auto arguments = command;
    arguments.emplace_back("--help");
    std::istringstream lines(ask(arguments).out);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST_F(CommandLine, RefusesWrongArgumentsWithCode2) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "subcommand is required"},
      {{"lokal"}, "lokal"},
      {{"check"}, "--cluster is required"},
      {{"check", "--cluster"}, "--cluster"},
      {{"check", "--cluster", "f", "--colour"}, "--colour"},
      {{"run", "--cluster", "f"}, "--name is required"},
      {{"run", "--cluster", "f", "--name", "a", "--out", "x", "--resume", "y"}, "excludes"},
      {{"run", "--cluster", "f", "--name", "a", "--log-level", "loud"}, "loud"},
      {{"explain", "--run", "r", "--window", "0"}, "--window"},
      {{"explain", "--run", "r", "--window", "x"}, "--window"},
      {{"explain", "--run", "r", "--window", "-1"}, "-1 is not a whole number from 0 to"},
      {{"explain", "--run", "r", "--window", "99999999999999999999"}, "is not a whole number"},
      {{"ledger", "--run", "r", "--from", "-1"}, "-1 is not a whole number"},
      {{"faults", "--plan", "p", "--seed", "99999999999999999999"}, "is not a whole number"},
      {{"train-policy", "--seed", "-1"}, "-1 is not a whole number"},
      {{"keys", "issue", "--cluster", "f"}, "--host is required"},
      {{"completion", "fish"}, "fish"}};
  for (const auto& [arguments, words] : cases) {
    const auto refused = ask(arguments);
    EXPECT_EQ(refused.code, exit_refused) << words;
    EXPECT_THAT(refused.err, StartsWith("dynamix-node: error: "));
    EXPECT_THAT(refused.err, HasSubstr(words));
    EXPECT_EQ(refused.out, "");
  }
}

TEST_F(CommandLine, RefusesToReachAHostAtAPortThatThereIsNot) {
  const auto path = write_pair();
  for (const auto* reach : {"ben=127.0.0.1:70000", "ben=127.0.0.1:0", "ben=127.0.0.1:-1", "ben=127.0.0.1:", "ben"}) {
    const auto refused =
        ask({"run", "--cluster", path, "--name", "ben", "--reach", reach, "--out", directory_.path() + "/run"});
    EXPECT_EQ(refused.code, exit_refused) << reach;
    EXPECT_THAT(refused.err, HasSubstr("it must be HOST=ADDRESS:PORT")) << reach;
  }
}

/// What a program writes to its standard output.
std::string output_of(const std::string& command) {
  std::string text(4096, '\0');
  FILE* program = ::popen(command.c_str(), "r");
  text.resize(program != nullptr ? std::fread(text.data(), 1, text.size(), program) : 0);
  if (program != nullptr)
    ::pclose(program);
  return text;
}

TEST_F(CommandLine, CompletesCommandsAndOptionsInBash) {
  const auto bash = ask({"completion", "bash"});
  ASSERT_EQ(bash.code, exit_done);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"lo", "local\n"}, {"local --clu", "--cluster\n"}, {"local --cluster x", "\n"}}; // bash itself offers files
  for (const auto& [line, offered] : cases) {
    const auto script =
        write(bash.out + "COMP_WORDS=(dynamix-node " + line + ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n" +
              "_dynamix_node dynamix-node \"${COMP_WORDS[-1]}\"\necho \"${COMPREPLY[*]}\"\n");
    EXPECT_EQ(output_of("bash " + script), offered) << line;
  }
  const auto zsh = ask({"completion", "zsh"});
  EXPECT_THAT(zsh.out, StartsWith("#compdef dynamix-node\n"));
  EXPECT_THAT(zsh.out, HasSubstr("'check:Validate a cluster file and print its plan'"));
}

TEST_F(CommandLine, InitWritesAClusterFileThatIsValid) {
  const auto path = directory_.path() + "/made.toml";
  const auto made = ask({"init", "--hosts", "gpu[1-5],slow=10.0.0.9", "--name", "lab", "--out", path});
  ASSERT_EQ(made.code, exit_done) << made.err;
  EXPECT_THAT(made.out, HasSubstr("6 hosts, gpu1 arbitrates"));
  EXPECT_THAT(made.out, HasSubstr("    ... and so on for 2 more"));
  EXPECT_THAT(made.out, HasSubstr("/keys: host keys"));
  const auto read = cluster::read_cluster_file(path);
  ASSERT_TRUE(read.errors.empty()) << cluster::to_string(read.errors.front());
  EXPECT_EQ(read.file.name, "lab");
  EXPECT_EQ(read.file.workers().size(), 6U);
  EXPECT_EQ(read.file.arbitrator_host().name, "gpu1");
  EXPECT_EQ(read.file.find("slow")->address, "10.0.0.9");
  EXPECT_EQ(refuse_keys(read.file, "slow"), "");

  const auto again = ask({"init", "--hosts", "ada", "--out", path});
  EXPECT_EQ(again.code, exit_refused);
  EXPECT_THAT(again.err, HasSubstr("--force replaces it"));
  EXPECT_EQ(cluster::read_cluster_file(path).file.name, "lab");
  const auto local = ask({"init", "--hosts", "ada=127.0.0.1", "--out", path, "--force"});
  EXPECT_EQ(local.code, exit_done);
  EXPECT_THAT(local.out, Not(AnyOf(HasSubstr("--insecure"), HasSubstr("keys"))));
  EXPECT_EQ(cluster::read_cluster_file(path).file.security.keys, "");
}

TEST_F(CommandLine, InitKeepsTheKeysOfBeforeAndMakesNoneWhereItIsTold) {
  const auto path = directory_.path() + "/made.toml";
  const auto key = directory_.path() + "/keys/hosts/ada/host.key";
  const auto read_key = [&] {
    std::string text;
    EXPECT_EQ(storage::read_file(key, 4096, text), "");
    return text;
  };
  const std::vector<std::string> again = {"init", "--hosts", "ada,ben", "--out", path, "--force"};
  const auto without = ask({"init", "--hosts", "ada,ben", "--out", path, "--no-keys"});
  EXPECT_THAT(without.out, HasSubstr("--insecure"));
  EXPECT_FALSE(std::filesystem::exists(key));
  EXPECT_EQ(ask(again).code, exit_done);
  const auto first = read_key();
  const auto more = ask({"init", "--hosts", "ada,ben,ben,cy", "--out", path, "--force"});
  EXPECT_THAT(more.out, HasSubstr("was there already; new keys for cy"));
  EXPECT_THAT(more.err, HasSubstr("ben is listed more than once"));
  EXPECT_THAT(ask(again).out, HasSubstr("was there already"));
  EXPECT_EQ(read_key(), first);
}

TEST_F(CommandLine, InitAsksForNothingThatIsNotInstalledHere) {
  const auto path = directory_.path() + "/made.toml";
  own_trainer(); // loaded once, so before the variable names another
  ::setenv("DYNAMIX_TRAINER", "/nonexistent/libdynamix-trainer.so", 1);
  const auto made = ask({"init", "--hosts", "ada,ben", "--no-keys", "--out", path});
  ::unsetenv("DYNAMIX_TRAINER");
  EXPECT_EQ(made.code, exit_done) << made.err;
  const auto read = cluster::read_cluster_file(path);
  ASSERT_TRUE(read.errors.empty()) << cluster::to_string(read.errors.front());
  EXPECT_EQ(read.file.training.trainer, cluster::trainer_kind::client);
  EXPECT_EQ(read.file.arbitrator.mode, cluster::policy_mode::infer);
}

TEST_F(CommandLine, InitReadsTheHostsOfAJob) {
  const auto path = directory_.path() + "/made.toml";
  const auto nodes = directory_.path() + "/nodes";
  ASSERT_EQ(storage::write_file_atomically(nodes, std::string("gpu1\ngpu1\ngpu2 8 all.q UNDEFINED\n")), "");
  ::unsetenv("SLURM_JOB_NODELIST");
  ::setenv("PBS_NODEFILE", nodes.c_str(), 1);
  const auto made = ask({"init", "--from-env", "--out", path});
  ::unsetenv("PBS_NODEFILE");
  EXPECT_EQ(made.code, exit_done) << made.err;
  EXPECT_EQ(cluster::read_cluster_file(path).file.workers().size(), 2U);
  EXPECT_THAT(ask({"init", "--from-env", "--out", path + "2"}).err,
              HasSubstr("no SLURM_JOB_NODELIST, PBS_NODEFILE, LSB_DJOB_HOSTFILE, PE_HOSTFILE, OAR_NODEFILE"));
}

TEST_F(CommandLine, InitTellsWhatItCannotUse) {
  const auto out = directory_.path() + "/made.toml";
  EXPECT_THAT(ask({"init", "--out", out}).err,
              HasSubstr("one of --hosts LIST, --hostfile FILE, --slurm and --from-env"));
  EXPECT_THAT(ask({"init", "--out", out, "--hosts", "a", "--slurm"}).err, HasSubstr("one of"));
  EXPECT_THAT(ask({"init", "--out", out, "--hosts", "a b"}).err, HasSubstr("--hosts: \"a b\" is not a name of a host"));
  EXPECT_THAT(ask({"init", "--out", out, "--hostfile", "/nonexistent"}).err, HasSubstr("/nonexistent"));
  EXPECT_THAT(ask({"init", "--out", "/nonexistent/c.toml", "--hosts", "a"}).err, HasSubstr("/nonexistent"));
  ::unsetenv("SLURM_JOB_NODELIST");
  EXPECT_THAT(ask({"init", "--out", out, "--slurm"}).err, HasSubstr("in an allocation"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(CommandLine, CheckReportsEveryErrorOfAFileWithItsPlace) {
  const auto path = write("[cluster]\nname = \"x\"\nseed = -1\n[batch]\nlowest = 0\n");
  const auto refused = ask({"check", "--cluster", path});
  EXPECT_EQ(refused.code, exit_refused);
  EXPECT_THAT(refused.err, HasSubstr(path + ":3:8: cluster.seed is -1; it must be in [0, "));
  EXPECT_THAT(refused.err, HasSubstr(path + ":5:10: batch.lowest is 0; it must be in [1, "));
  EXPECT_EQ(ask({"check", "--cluster", "/nonexistent.toml"}).code, exit_refused);
}

TEST_F(CommandLine, CheckPrintsThePlan) {
  const auto path = write_pair();
  const auto text = ask({"check", "--cluster", path});
  EXPECT_EQ(text.code, exit_done);
  EXPECT_THAT(text.out, StartsWith("cluster pair"));
  EXPECT_EQ(text.err, "");
  const auto json = ask({"check", "--cluster", path, "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["hosts"][1]["name"], "ben");
}

TEST_F(CommandLine, CheckSaysWhatItHasNotLookedAt) {
  const auto path = write_pair();
  const auto elsewhere =
      ask({"check", "--cluster", path, "--set", "hosts.ada.address=10.0.0.1", "--set", "hosts.ben.address=10.0.0.2"});
  EXPECT_EQ(elsewhere.code, exit_done) << elsewhere.err;
  EXPECT_THAT(elsewhere.out, HasSubstr("not checked here: data set, model"));
  EXPECT_THAT(ask({"check", "--cluster", path, "--set", "arbitrator.policy_file=/nonexistent/p"}).err,
              HasSubstr("there is no file /nonexistent/p"));
  EXPECT_THAT(ask({"check", "--cluster", path, "--all"}).out, HasSubstr("connection_timeout_ms"));
}

TEST_F(CommandLine, NamesWhatWasProbablyMeant) {
  const auto path = write_pair();
  EXPECT_THAT(ask({"trian"}).err, HasSubstr("\"trian\" is not a command; did you mean \"train-policy\"?"));
  EXPECT_THAT(
      ask({"local", "--epoch", "1"}).err,
      HasSubstr("--epoch is not an option of local; did you mean \"--epochs\"?; see dynamix-node local --help"));
  EXPECT_THAT(ask({"exec", "--worker", "2", "--", "true", "--epoch"}).err,
              HasSubstr("--worker is not an option of exec; did you mean \"--workers\"?"));
  EXPECT_THAT(ask({"exec", "--workers", "none", "--", "true", "--foo"}).err, HasSubstr("--workers"));
  for (const std::string program : {"/no/such/program", "no-such-program"}) { // before agents are started for it
    const auto missing = ask({"exec", "--workers", "2", "--", program});
    EXPECT_EQ(missing.code, 127);
    EXPECT_THAT(missing.err, HasSubstr("error: cannot start " + program + ": "));
    EXPECT_THAT(missing.err, Not(HasSubstr("page")));
  }
  EXPECT_THAT(ask({"check", "--cluster", path, "--set", "trian.epochs=2"}).err,
              HasSubstr("did you mean \"training\"?"));
  EXPECT_THAT(ask({"check", "--cluster", path, "--set", "foo.bar=2"}).err, Not(HasSubstr("did you mean")));
}

TEST_F(CommandLine, CheckCautionsAboutOpenListenersAndUntrainedPolicies) {
  const auto path = write_pair("address = \"10.0.0.1\"\n[arbitrator]\nmode = \"infer\"\n");
  const auto cautioned = ask({"check", "--cluster", path});
  EXPECT_EQ(cautioned.code, exit_done);
  EXPECT_THAT(cautioned.err, HasSubstr("which is not loopback"));
  EXPECT_THAT(cautioned.err, HasSubstr("the policy stays as random as its seed"));
}

TEST_F(CommandLine, RunRefusesUnknownHostsOpenListenersAndUnreadableData) {
  auto refused = ask({"run", "--cluster", write_pair(), "--name", "eve"});
  EXPECT_EQ(refused.code, exit_refused);
  EXPECT_THAT(refused.err, HasSubstr("it has ada, ben"));

  const auto open = write_pair("address = \"10.0.0.1\"\n");
  refused = ask({"run", "--cluster", open, "--name", "ben"});
  EXPECT_EQ(refused.code, exit_refused);
  EXPECT_THAT(refused.err, StartsWith(open + ":"));
  EXPECT_THAT(refused.err, HasSubstr("allow it with cluster.insecure = true or --insecure"));

  const auto unreadable = write_pair("[training]\ndata_path = \"/nonexistent\"\n");
  refused = ask({"run", "--cluster", unreadable, "--name", "ben"});
  EXPECT_EQ(refused.code, exit_refused);
  EXPECT_THAT(refused.err, StartsWith(unreadable + ":"));
  EXPECT_THAT(refused.err, HasSubstr("/nonexistent"));

  const auto unfit = write_pair("[training]\nepochs = 1\nmodel = \"vgg11\"\n");
  refused = ask({"run", "--cluster", unfit, "--name", "ben"});
  EXPECT_EQ(refused.code, exit_refused);
  const auto place = cluster::read_cluster_file(unfit).file.positions.at("training.model");
  EXPECT_THAT(refused.err, StartsWith(unfit + ":" + std::to_string(place.line) + ":"));
}

TEST_F(CommandLine, EveryCommandThatTakesAClusterFileTakesChangesOfIt) {
  const auto path = write_pair();
  const auto plan = path + ".plan";
  ASSERT_EQ(storage::write_file_atomically(plan, "[[fault]]\nkind = \"kill\"\ntarget = \"ben\"\nat_step = 1\n"), "");
  const std::vector<std::vector<std::string>> commands = {
      {"run", "--cluster", path, "--name", "ada"},
      {"local", "--cluster", path},
      {"check", "--cluster", path},
      {"simulate", "--cluster", path},
      {"compare", "--cluster", path},
      {"swarm", "--cluster", path},
      {"faults", "--cluster", path, "--plan", plan},
      {"profile", "--cluster", path},
      {"profile"},
      {"train-policy", "--scenarios", path, "--out", path + ".policy"},
  };
  for (auto command : commands) {
    command.insert(command.end(), {"--set", "training.epochs=2", "--set", "training.epochs=0"});
    const auto refused = ask(command);
    EXPECT_EQ(refused.code, exit_refused) << command.front();
    EXPECT_EQ(refused.err, "dynamix-node: error: --set training.epochs=0: training.epochs is 0; it must be in "
                           "(0, 10000]\n")
        << command.front();
    EXPECT_THAT(ask({command.front(), "--help"}).out, HasSubstr("--set training.epochs=2")) << command.front();
  }
}

TEST_F(CommandLine, CheckShowsThePlanWithItsChanges) {
  const auto shown = ask(
      {"check", "--cluster", write_pair(), "--set", "training.epochs=2.5", "--set", "hosts.ben.compute_slowdown=3"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("2.5"));
  EXPECT_THAT(shown.out, ::testing::ContainsRegex("ben .* 3\n"));
}

TEST_F(CommandLine, LocalRefusesWrongChangesOfTheFile) {
  const auto path = write_pair();
  EXPECT_THAT(ask({"local", "--cluster", path, "--policy", "pop"}).err,
              HasSubstr("--policy: arbitrator.policy is \"pop\"; did you mean"));
  EXPECT_THAT(ask({"local", "--cluster", path, "--seed", "-1"}).err,
              HasSubstr("--seed: cluster.seed is -1; it must be in "));
  const auto refused = ask({"local", "--cluster", path, "--epochs", "many"});
  EXPECT_THAT(refused.err, HasSubstr("--epochs: training.epochs is many; it must be a number in (0, 10000]"));
  EXPECT_EQ(refused.code, exit_refused);
}

TEST_F(CommandLine, LocalRefusesAddressesOfOthersBeforeItWritesAnything) {
  const auto path = write_pair("address = \"203.0.113.1\"\n");
  const std::string out = directory_.path() + "/run";
  const auto refused = ask({"local", "--cluster", path, "--out", out});
  EXPECT_EQ(refused.code, exit_failed) << "the address may be there at the next start";
  EXPECT_THAT(refused.err, HasSubstr("that is not an address of this machine"));
  EXPECT_THAT(refused.err, Not(HasSubstr("--insecure"))) << "with keys that is no matter";
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(CommandLine, ExplainAndReportReadARun) {
  const run_directory run(directory_.path() + "/run");
  ASSERT_EQ(run.create(), "");
  ASSERT_EQ(write_cluster_copy(run, pair_file()), "");
  std::string lines;
  for (const auto& row : sample_rows())
    lines += ledger::to_json_line(row) + "\n";
  ASSERT_EQ(storage::write_file_atomically(run.ledger(), lines), "");

  const auto explained = ask({"explain", "--run", run.path(), "--window", "1", "--worker", "ben"});
  EXPECT_EQ(explained.code, exit_done);
  EXPECT_THAT(explained.out, HasSubstr("Batch 64 -> 39"));
  EXPECT_THAT(explained.out, Not(HasSubstr("What the policy saw")));
  EXPECT_THAT(ask({"explain", "--run", run.path(), "--all"}).out, HasSubstr("What the policy saw"));
  EXPECT_THAT(ask({"explain", "--run", run.path()}).out, HasSubstr("Window 2 of cluster pair"));
  EXPECT_EQ(nlohmann::json::parse(ask({"explain", "--run", run.path(), "--window", "1", "--json"}).out).size(), 2U);
  EXPECT_EQ(ask({"explain", "--run", run.path(), "--window", "7"}).code, exit_refused);
  EXPECT_EQ(ask({"ledger", "--run", run.path()}).out, lines);
  const auto first = lines.find('\n') + 1;
  EXPECT_EQ(ask({"ledger", "--run", run.path(), "--from", std::to_string(first)}).out, lines.substr(first));
  EXPECT_EQ(ask({"ledger", "--run", run.path(), "--from", std::to_string(lines.size())}).err, "");
  const auto beyond = ask({"ledger", "--run", run.path(), "--from", "99999999"});
  EXPECT_EQ(beyond.out, lines);
  EXPECT_THAT(beyond.err, HasSubstr("--from is 99999999, and the ledger ends at " + std::to_string(lines.size()) +
                                    ": it is printed from its beginning\n"));
  EXPECT_THAT(ask({"ledger", "--run", run.path(), "--places"}).out,
              StartsWith(std::to_string(first) + " " + lines.substr(0, first)));
  for (const std::string command : {"arbitrators", "dashboard", "explain", "ledger", "report", "top", "trace"})
    EXPECT_THAT(ask({command, "--run", "/nonexistent"}).err,
                HasSubstr("/nonexistent is not a run directory: there is no such directory"))
        << command;
  const temporary_directory other;
  EXPECT_THAT(ask({"explain", "--run", other.path()}).err,
              HasSubstr("is not a run directory: it has no cluster.toml and no windows.jsonl"));

  const auto reported = ask({"report", "--run", run.path()});
  EXPECT_EQ(reported.code, exit_done);
  EXPECT_THAT(reported.out, HasSubstr("Batch sizes, from 32 to 1024"));
  EXPECT_THAT(reported.out, HasSubstr("\n  outcome "));
  EXPECT_EQ(nlohmann::json::parse(ask({"report", "--run", run.path(), "--json"}).out).size(), 2U);
  EXPECT_EQ(ask({"report", "--run", "/nonexistent"}).code, exit_refused);
}

TEST_F(CommandLine, DoctorSaysWhatThereIs) {
  EXPECT_THAT(ask({"doctor"}).out, HasSubstr("LibTorch"));
  const auto array = nlohmann::json::parse(ask({"doctor", "--json"}).out);
  EXPECT_EQ(array[0]["subject"], "cores");
  EXPECT_EQ(array[2]["subject"], "link");
}

} // namespace
} // namespace dynamix::node
