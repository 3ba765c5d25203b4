#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/command_answer.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <unistd.h>

namespace dynamix::node {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const std::string scenario = shipped("scenarios/train/straggler-8.toml");

class CompareCommand : public ::testing::Test {
protected:
  std::string out() const { return directory_.path() + "/out"; }

  /// Simulated runs of few windows each, towards a target that they reach.
  answer compare(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"compare",
                                          "--simulate",
                                          "--quiet",
                                          "--cluster",
                                          scenario,
                                          "--out",
                                          out(),
                                          "--set",
                                          "training.target_accuracy=0.2",
                                          "--set",
                                          "training.epochs=40"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ask(arguments);
  }

  temporary_directory directory_;
};

TEST_F(CompareCommand, GoesOnWhereARunWasKilledWhileItsFirstFileWasWritten) {
  const auto begun = out() + "/straggler-8/static-seed-1";
  std::filesystem::create_directories(begun);
  ASSERT_EQ(storage::write_file_atomically(begun + "/cluster.toml.6v1OgQ", std::string("half")), "");
  EXPECT_EQ(compare({"--policies", "static", "--seeds", "1"}).code, exit_done);
  std::filesystem::remove_all(begun);
  std::filesystem::create_directories(begun);
  ASSERT_EQ(storage::write_file_atomically(begun + "/thesis.tex", std::string("mine")), "");
  const auto said = compare({"--policies", "static", "--seeds", "1"});
  EXPECT_THAT(said.err, HasSubstr("is not a run of a comparison; choose another --out"));
  EXPECT_EQ(text_of_file(begun + "/thesis.tex"), "mine");
}

TEST_F(CompareCommand, GoesOnWhereARunWasKilledBeforeItsFirstFile) {
  const auto begun = out() + "/straggler-8/static-seed-1";
  std::filesystem::create_directories(begun + "/logs");
  std::filesystem::create_directories(begun + "/workers");
  ASSERT_EQ(storage::write_file_atomically(begun + "/run.lock", std::string("1")), "");
  EXPECT_EQ(compare({"--policies", "static", "--seeds", "1"}).code, exit_done);
  std::filesystem::remove_all(begun);
  std::filesystem::create_directories(begun + "/logs");
  ASSERT_EQ(storage::write_file_atomically(begun + "/logs/mine", std::string("mine")), "");
  EXPECT_EQ(compare({"--policies", "static", "--seeds", "1"}).code, exit_refused);
  EXPECT_EQ(text_of_file(begun + "/logs/mine"), "mine");
}

/// What breaks off the removal here is a directory that may not be changed; a process that is killed leaves the same.
TEST_F(CompareCommand, RemovesARunsClusterFileLast) {
  ASSERT_EQ(compare({"--policies", "static", "--seeds", "1"}).code, exit_done);
  const auto run = out() + "/straggler-8/static-seed-1";
  std::filesystem::create_directories(run + "/kept/inner");
  std::filesystem::permissions(run + "/kept", std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  for (const auto& path : {directory_.path(), out(), out() + "/straggler-8", run})
    std::filesystem::permissions(path, std::filesystem::perms::all);
  const bool is_root = ::geteuid() == 0;
  ASSERT_EQ(is_root ? ::seteuid(65534) : 0, 0);
  const auto said = compare({"--policies", "static", "--seeds", "1", "--set", "batch.initial=40"});
  ASSERT_EQ(is_root ? ::seteuid(0) : 0, 0);
  EXPECT_NE(said.code, exit_done);
  EXPECT_TRUE(std::filesystem::exists(run + "/cluster.toml"));
  std::filesystem::permissions(run + "/kept", std::filesystem::perms::all);
}

TEST_F(CompareCommand, RunsPoliciesAndSeedsAndMakesATableAndAPage) {
  const auto said = compare({"--policies", "static,goodput", "--seeds", "2"});
  ASSERT_EQ(said.code, exit_done) << said.err;
  EXPECT_THAT(said.out, HasSubstr("straggler-8: static, goodput with 2 seeds each, simulated; results go to " + out()));
  EXPECT_THAT(said.out, HasSubstr("2/2"));
  EXPECT_THAT(said.out, HasSubstr("best rival: goodput"));
  const auto rows = json::parse(text_of_file(out() + "/comparison.json"));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["ratio_to_static"]["mean"], 1);
  EXPECT_LT(rows[1]["ratio_to_static"]["mean"], 1) << "one host of eight is slow";
  EXPECT_EQ(rows[1]["seconds_to_target"]["n"], 2);
  EXPECT_THAT(text_of_file(out() + "/report.html"), HasSubstr("goodput: batch sizes"));
  EXPECT_EQ(json::parse(text_of_file(out() + "/straggler-8/goodput-seed-2/summary.json"))["seed"], 2);
}

TEST_F(CompareCommand, TheResultDoesNotDependOnTheNumberOfThreads) {
  const auto one = compare({"--policies", "static,omnilearn", "--seeds", "2", "--jobs", "1"});
  ASSERT_EQ(one.code, exit_done) << one.err;
  const auto rows = text_of_file(out() + "/comparison.json");
  std::filesystem::remove_all(out());
  ASSERT_EQ(compare({"--policies", "static,omnilearn", "--seeds", "2", "--jobs", "3"}).code, exit_done);
  EXPECT_EQ(text_of_file(out() + "/comparison.json"), rows);
}

TEST_F(CompareCommand, KeepsFinishedRunsAndRepeatsTheOthers) {
  ASSERT_EQ(compare({"--policies", "static,lb-bsp", "--seeds", "1"}).code, exit_done);
  const std::string runs = out() + "/straggler-8/";
  const auto before = std::filesystem::last_write_time(runs + "static-seed-1/outcome.json");
  std::filesystem::remove(runs + "lb-bsp-seed-1/outcome.json");
  const auto again = compare({"--policies", "static,lb-bsp", "--seeds", "1"});
  EXPECT_EQ(again.code, exit_done) << again.err;
  EXPECT_THAT(again.out, HasSubstr("1 run is finished already and kept\n1 run was not finished: made again\n"));
  EXPECT_EQ(std::filesystem::last_write_time(runs + "static-seed-1/outcome.json"), before);
  EXPECT_TRUE(std::filesystem::exists(runs + "lb-bsp-seed-1/outcome.json"));

  const auto changed = compare({"--policies", "static", "--seeds", "1", "--set", "batch.initial=40"});
  EXPECT_THAT(changed.out, HasSubstr("1 run was of another cluster file or policy: made again"));
}

TEST_F(CompareCommand, TouchesNoDirectoryThatIsNotItsOwn) {
  std::filesystem::create_directories(out() + "/straggler-8/static-seed-1");
  ASSERT_EQ(storage::write_file_atomically(out() + "/straggler-8/static-seed-1/thesis.txt", std::string("words")), "");
  const auto refused = compare({"--policies", "static", "--seeds", "1"});
  EXPECT_EQ(refused.code, exit_refused);
  EXPECT_THAT(refused.err, HasSubstr("is not a run of a comparison; choose another --out"));
  EXPECT_EQ(text_of_file(out() + "/straggler-8/static-seed-1/thesis.txt"), "words");
}

TEST_F(CompareCommand, LooksForTheBestEqualBatch) {
  const auto said = compare({"--policies", "static,static-best", "--seeds", "1", "--json", "--set", "batch.lowest=32",
                             "--set", "batch.highest=128"});
  ASSERT_EQ(said.code, exit_done) << said.err;
  const auto rows = json::parse(said.out);
  const auto best = rows[1]["static_batch"].get<int>();
  const auto text = compare(
      {"--policies", "static,static-best", "--seeds", "1", "--set", "batch.lowest=32", "--set", "batch.highest=128"});
  EXPECT_THAT(text.out,
              HasSubstr("static-best is " + std::to_string(best) + " samples per worker, the soonest of 32, "));
  EXPECT_THAT(text.out, HasSubstr("static-best (" + std::to_string(best) + ")"));
  EXPECT_LE(rows[1]["ratio_to_static"]["mean"], 1.01) << "static's own batch is among the candidates";
}

TEST_F(CompareCommand, RefusesWrongArgumentsWithCode2BeforeItWrites) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"compare"}, "--cluster is required"},
      {{"compare", "--simulate", "--cluster", scenario, "--policies", "static,magic"},
       "--policies: arbitrator.policy is \"magic\""},
      {{"compare", "--simulate", "--cluster", scenario, "--policies", "magic"}, "\"lb-bsp\""},
      {{"compare", "--cluster", scenario, "--policies", "oracle"}, "add --simulate"},
      {{"compare", "--simulate", "--cluster", directory_.path()}, "holds no cluster file (*.toml)"},
      {{"compare", "--simulate", "--cluster", scenario, scenario}, "as in another of the files"},
      {{"compare", "--simulate", "--cluster", scenario, "--seeds", "0"}, "--seeds"},
      {{"compare", "--simulate", "--cluster", scenario, "--set", "training.target_accuracy=0"},
       "compare needs a target"},
      {{"compare", "--simulate", "--cluster", scenario, "--set", "training.epochs"}, "SECTION.FIELD=VALUE"}};
  for (const auto& [arguments, words] : cases) {
    auto with_out = arguments;
    if (with_out.size() > 1)
      with_out.insert(with_out.end(), {"--out", out()});
    const auto refused = ask(with_out);
    EXPECT_EQ(refused.code, exit_refused) << words;
    EXPECT_THAT(refused.err, HasSubstr(words));
    EXPECT_EQ(refused.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(CompareCommand, NamesThePlaceOfWhatASimulationLacks) {
  const std::string path = directory_.path() + "/pair.toml";
  auto file = pair_file("[training]\ntarget_accuracy = 0.5\n");
  file.simulation.workload = directory_.path() + "/none.toml";
  ASSERT_EQ(storage::write_file_atomically(path, cluster::to_toml(file)), "");
  const auto refused = ask({"compare", "--simulate", "--cluster", path});
  EXPECT_EQ(refused.code, exit_refused);
  const auto place = cluster::read_cluster_file(path).file.where("host[0].profile");
  EXPECT_THAT(refused.err, HasSubstr(path + ":" + std::to_string(place.line) + ":" + std::to_string(place.column) +
                                     ": host \"ada\" has no device profile"));
  EXPECT_THAT(refused.err, HasSubstr("none.toml"));
}

TEST_F(CompareCommand, ClosesWithAllClusters) {
  const auto said = ask({"compare", "--simulate", "--quiet", "--cluster", scenario,
                         shipped("scenarios/train/equal-4.toml"), "--policies", "static,lb-bsp", "--seeds", "1",
                         "--out", out(), "--set", "training.target_accuracy=0.2", "--set", "training.epochs=40"});
  ASSERT_EQ(said.code, exit_done) << said.err;
  EXPECT_THAT(said.out, HasSubstr("all clusters: seconds to target over static's"));
  EXPECT_THAT(said.out, HasSubstr("median"));
  EXPECT_EQ(json::parse(text_of_file(out() + "/comparison.json")).size(), 4U);
}

TEST_F(CompareCommand, AnExperimentHoldsItsClaimAgainstItsPartsAndGoesOnWhereItWas) {
  const auto path = directory_.path() + "/experiment.toml";
  const auto text = "[experiment]\ntitle = \"A straggler\"\nclaim = \"Half the time.\"\nneeds = \"a clock\"\n"
                    "[[part]]\nname = \"slow\"\nclusters = \"" +
                    scenario +
                    "\"\npolicies = \"static,goodput\"\nsimulate = true\n"
                    "set = [\"training.target_accuracy=0.2\", \"training.epochs=40\"]\n"
                    "[[finding]]\ntext = \"goodput over static\"\npart = \"slow\"\npolicy = \"goodput\"\n"
                    "at_most = 0.99\n"
                    "[[finding]]\ntext = \"static over itself\"\npart = \"slow\"\npolicy = \"static\"\n"
                    "at_most = 0.99\n";
  ASSERT_EQ(storage::write_file_atomically(path, text), "");
  const std::vector<std::string> arguments = {"experiment", path, "--quiet", "--out", out()};
  const auto said = ask(arguments);
  ASSERT_EQ(said.code, exit_done) << said.err;
  EXPECT_THAT(said.out, HasSubstr("claim: Half the time."));
  EXPECT_THAT(said.out, ContainsRegex("goodput over static +0\\.[0-9]+ +<= 0.990 +yes"));
  EXPECT_THAT(said.out, ContainsRegex("static over itself +1.000 +<= 0.990 +no"));
  EXPECT_THAT(text_of_file(out() + "/experiment.md"), HasSubstr("| goodput over static | 0."));
  EXPECT_THAT(text_of_file(out() + "/report.html"), HasSubstr("Claim and findings"));
  EXPECT_THAT(ask(arguments).out, HasSubstr("2 runs are finished already and kept"));
  const auto wrong = ask({"experiment", path, "--set", "training.epoch=3"});
  EXPECT_EQ(wrong.code, exit_refused);
  EXPECT_THAT(wrong.err, HasSubstr("training.epoch"));
  EXPECT_THAT(wrong.err, Not(HasSubstr("this experiment needs"))) << "for a slip of the pen";
  const auto without = ask({"experiment", path, "--set", "simulation.workload=none.toml"});
  EXPECT_EQ(without.code, exit_refused);
  EXPECT_THAT(without.err, HasSubstr("none.toml"));
  EXPECT_THAT(without.err, HasSubstr("this experiment needs a clock"));
}

TEST_F(CompareCommand, AnExperimentLetsAPolicyLearnOverEpisodes) {
  const auto path = directory_.path() + "/experiment.toml";
  const auto text = "[experiment]\ntitle = \"Learning\"\n"
                    "[[part]]\nname = \"learning\"\nclusters = \"" +
                    scenario +
                    "\"\npolicies = \"static,ppo-simple\"\nepisodes = 6\nsimulate = true\n"
                    "set = [\"training.target_accuracy=0.2\", \"arbitrator.guard=false\", \"ppo.horizon=2\"]\n"
                    "[[finding]]\ntext = \"settles\"\npart = \"learning\"\npolicy = \"ppo-simple\"\n"
                    "figure = \"plateau\"\n";
  ASSERT_EQ(storage::write_file_atomically(path, text), "");
  const auto said = ask({"experiment", path, "--quiet", "--out", out()});
  ASSERT_EQ(said.code, exit_done) << said.err;
  EXPECT_THAT(said.out, HasSubstr("1 seed of 6 episodes, simulated"));
  EXPECT_THAT(text_of_file(out() + "/experiment.md"),
              ContainsRegex("- ppo-simple: reward -?[0-9.]+ in the first of 6 episodes"));
  const auto place = out() + "/learning/straggler-8/";
  const auto learned = json::parse(text_of_file(place + "ppo-simple-seed-1/outcome.json"));
  EXPECT_EQ(learned["episode_rewards"].size(), 6U);
  EXPECT_EQ(learned["episode_rewards"][5], learned["reward"]) << "the run that is kept is the last";
  EXPECT_TRUE(json::parse(text_of_file(place + "static-seed-1/outcome.json"))["episode_rewards"].empty());
  const auto summary = json::parse(text_of_file(place + "ppo-simple-seed-1/summary.json"));
  EXPECT_GT(summary["policy_version"].get<int>(), 5) << "it went on learning from run to run";
  EXPECT_THAT(ask({"experiment", path, "--quiet", "--out", out()}).out, HasSubstr("2 runs are finished already"));
}

TEST(ExperimentCommand, ListsWhatComesWithTheProgramAndSuggestsNames) {
  const auto list = ask({"experiment"});
  EXPECT_EQ(list.code, exit_done) << list.err;
  EXPECT_THAT(list.out, ContainsRegex("vgg11-sgd +16 min  VGG11 with SGD"));
  EXPECT_THAT(list.out, ContainsRegex("\npaper-actions +unknown  "));
  const auto wrong = ask({"experiment", "vgg11-sdg"});
  EXPECT_EQ(wrong.code, exit_refused);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean \"vgg11-sgd\"?"));
  const auto without = ask({"experiment", "vgg11-sgd", "--data", "cifar10"});
  EXPECT_EQ(without.code, exit_refused);
  EXPECT_THAT(without.err, HasSubstr("--data cifar10 needs --data-path"));
}

} // namespace
} // namespace dynamix::node
