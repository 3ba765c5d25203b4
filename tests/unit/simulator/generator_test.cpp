#include "cluster/cluster_file.hpp"
#include "simulator/generator.hpp"
#include "simulator/scenario.hpp"
#include "simulator/simulation.hpp"
#include "storage/atomic_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <unistd.h>

namespace dynamix::simulator {
namespace {

constexpr std::uint64_t seeds = 60;

class GeneratedScenarios : public testing::Test {
protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("dynamix-generated-" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  scenario load(const generated_scenario& made) {
    for (const auto& file : made.files) {
      const auto path = directory_ / file.path;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << file.text;
    }
    const auto read = cluster::read_cluster_file((directory_ / made.files.front().path).string());
    for (const auto& error : read.errors)
      ADD_FAILURE() << made.name << ": " << error.message;
    scenario loaded;
    for (const auto& error : load_scenario(read.file, loaded))
      ADD_FAILURE() << made.name << ": " << error.message;
    return loaded;
  }

  std::filesystem::path directory_;
};

TEST_F(GeneratedScenarios, LoadAndCoverAllGroups) {
  std::map<std::string, int> groups;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    for (const auto purpose : {generated_for::test, generated_for::training}) {
      const auto made = generate_scenario(purpose, seed, "");
      const auto loaded = load(made);
      const auto workers = loaded.file.workers().size();
      EXPECT_GE(workers, 2U) << made.name;
      EXPECT_LE(workers, 512U) << made.name;
      if (purpose == generated_for::test)
        ++groups[std::regex_replace(made.name, std::regex("test-[0-9]+-"), "")];
    }
  }
  EXPECT_EQ(groups.size(), 12U);
  for (const auto& [group, count] : groups)
    EXPECT_EQ(count, 5) << group;
}

TEST_F(GeneratedScenarios, AreTheSameEveryTimeAndDifferBySeedAndPurpose) {
  std::set<std::string> texts;
  for (std::uint64_t seed = 0; seed < seeds; ++seed)
    for (const auto purpose : {generated_for::test, generated_for::training}) {
      std::string text;
      for (const auto& file : generate_scenario(purpose, seed, "p").files)
        text += file.text;
      std::string again;
      for (const auto& file : generate_scenario(purpose, seed, "p").files)
        again += file.text;
      EXPECT_EQ(text, again);
      texts.insert(text.substr(text.find("[training]")));
    }
  EXPECT_EQ(texts.size(), 2 * seeds);
}

TEST_F(GeneratedScenarios, EveryRunOfStaticReachesItsTarget) {
  for (const std::uint64_t seed : {0U, 3U, 6U, 9U}) {
    auto loaded = load(generate_scenario(generated_for::test, seed, ""));
    loaded.file.arbitrator.policy = cluster::policy_kind::static_batch;
    simulation run(std::move(loaded), std::vector<std::uint8_t>{}, 1);
    while (run.advance()) {
    }
    EXPECT_EQ(run.result().failure, "");
    EXPECT_GT(run.result().seconds_to_target, 0) << seed;
  }
}

/// The rows that describe the distribution stand in the document.
TEST_F(GeneratedScenarios, AreDescribedInTheDocument) {
  std::ifstream in(std::string(DYNAMIX_SOURCE_DIRECTORY) + "/docs/simulation-files.md");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_NE(text.find(describe_generator_markdown()), std::string::npos) << describe_generator_markdown();
}

/// Who acts on the truth of every step is not slower than who acts on it once a window, where hosts change within one.
TEST_F(GeneratedScenarios, AnOracleOfEveryStepBeatsThatOfEveryWindow) {
  const auto seconds = [&](cluster::policy_kind policy) {
    auto loaded = load(generate_scenario(generated_for::test, 33, "")); // changing, slow steps, 2-8 workers
    loaded.file.arbitrator.policy = policy;
    loaded.file.simulation.slow_every_seconds = 60;
    loaded.file.simulation.slow_seconds = 30;
    loaded.file.simulation.slow_factor = 6;
    simulation run(std::move(loaded), std::vector<std::uint8_t>{}, 1);
    while (run.advance()) {
    }
    return run.result().seconds_to_target;
  };
  EXPECT_LT(seconds(cluster::policy_kind::step_oracle), 0.98 * seconds(cluster::policy_kind::oracle));
}

} // namespace
} // namespace dynamix::simulator
