#include "node/experiments/experiment.hpp"
#include "tests/unit/documented.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

namespace dynamix::node {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::filesystem::path source = DYNAMIX_SOURCE_DIRECTORY;

/// One policy's runs, a seed each: seconds to the target, negative if never.
policy_runs runs_of(const std::string& policy, const std::vector<double>& seconds, double accuracy) {
  policy_runs of{.policy = policy};
  for (std::size_t i = 0; i < seconds.size(); ++i)
    of.runs.push_back({.policy = policy,
                       .seed = i + 1,
                       .seconds = 100,
                       .seconds_to_target = seconds[i],
                       .final_accuracy = accuracy,
                       .samples = policy == "ppo" ? 30'000U : 20'000U,
                       .windows = 50,
                       .interventions = 5});
  return of;
}

part_tables part_of(const std::string& name, std::vector<std::vector<policy_runs>> clusters) {
  part_tables made{.part = name};
  for (auto& policies : clusters)
    made.clusters.push_back(
        compare({.cluster = "pair", .path = "pair.toml", .target_accuracy = 0.8}, std::move(policies)));
  return made;
}

experiment_finding finding(finding_figure figure, double at_most) {
  return {.text = "x", .part = "live", .figure = figure, .at_most = at_most};
}

TEST(Experiment, JudgesAPolicyAgainstAnotherOfItsPart) {
  const std::vector<part_tables> tables = {part_of(
      "live",
      {{runs_of("static", {100, 110}, 0.81), runs_of("lb-bsp", {70, 80}, 0.8), runs_of("ppo", {40, 65}, 0.83)}})};
  const auto seconds = judge(finding(finding_figure::seconds, 0.54), tables);
  EXPECT_DOUBLE_EQ(seconds.value.value(), 0.5);
  EXPECT_TRUE(seconds.holds.value());
  EXPECT_FALSE(judge(finding(finding_figure::seconds, 0.49), tables).holds.value());
  EXPECT_DOUBLE_EQ(judge(finding(finding_figure::speed, 2), tables).value.value(), 1.5);
  EXPECT_NEAR(judge(finding(finding_figure::accuracy, 9), tables).value.value(), 2, 1e-9);
  EXPECT_DOUBLE_EQ(judge(finding(finding_figure::interventions, 5), tables).value.value(), 10);
  auto rival = finding(finding_figure::seconds, 1);
  rival.to_policy = "best-rival";
  EXPECT_DOUBLE_EQ(judge(rival, tables).value.value(), 0.7);
}

TEST(Experiment, TakesTheMedianOfSeveralClustersAndPairsThoseOfTwoParts) {
  const auto cluster = [](double of_static, double of_ppo) {
    return std::vector{runs_of("static", {of_static}, 0.8), runs_of("ppo", {of_ppo}, 0.8)};
  };
  const std::vector<part_tables> tables = {part_of("live", {cluster(100, 50), cluster(100, 60), cluster(100, 90)}),
                                           part_of("own", {cluster(100, 50), cluster(100, 40), cluster(100, 45)})};
  const auto within = judge(finding(finding_figure::seconds, 1), tables);
  EXPECT_DOUBLE_EQ(within.value.value(), 0.6);
  EXPECT_DOUBLE_EQ(within.lowest.value(), 0.5);
  EXPECT_DOUBLE_EQ(within.highest.value(), 0.9);
  auto across = finding(finding_figure::seconds, 1);
  across.to_part = "own";
  across.to_policy = "ppo";
  EXPECT_DOUBLE_EQ(judge(across, tables).value.value(), 1.5);
}

TEST(Experiment, AClaimWithoutANumberDoesNotHold) {
  const std::vector<part_tables> tables = {
      part_of("live", {{runs_of("static", {100, -1}, 0.79), runs_of("ppo", {40, 45}, 0.83)}})};
  experiment of{.title = "T", .findings = {finding(finding_figure::seconds, 0.54)}};
  EXPECT_FALSE(judge(of.findings[0], tables).value.has_value());
  EXPECT_THAT(finding_cells(of, tables)[1], ElementsAre("x", "target not reached by all", "<= 0.540", "no"));
  of.findings[0].policy = "goodput"; // which did not run
  EXPECT_EQ(finding_cells(of, tables)[1][3], "no");
  EXPECT_EQ(finding_cells(of, tables)[1][1], "no such row");
  auto failed = tables;
  failed[0].clusters[0].rows[1].samples_per_second.mean = std::numeric_limits<double>::quiet_NaN();
  experiment speed{.title = "T", .findings = {finding(finding_figure::speed, 2)}};
  EXPECT_EQ(finding_cells(speed, failed)[1][1], "runs failed");
  of.findings[0] = {.text = "y", .part = "live", .figure = finding_figure::accuracy};
  EXPECT_THAT(finding_cells(of, tables)[1], ElementsAre("y", "+4.00 points", "told", "-"));
}

TEST(Experiment, APlateauIsTheMedianOfTheSeedsInWhichTheRewardRises) {
  auto learned = runs_of("ppo", {40, 45, 50, 60}, 0.8);
  for (std::size_t i = 0; i < 3; ++i) {
    learned.runs[i].episode_rewards = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
    learned.runs[i].episode_rewards[8 - i] = 1;
    learned.runs[i].episode_rewards[7 - i] = 1;
    learned.runs[i].episode_rewards[6 - i] = 1;
  }
  learned.runs[3].episode_rewards.assign(14, 0.5);
  std::vector<part_tables> tables = {part_of("live", {{runs_of("static", {90, 90, 90, 90}, 0.8), learned}})};
  EXPECT_EQ(judge(finding(finding_figure::plateau, 15), tables).value.value(), 7) << "8, 7 and 6";
  EXPECT_TRUE(judge(finding(finding_figure::plateau, 15), tables).holds.value());
  auto& runs = tables[0].clusters[0].rows[1].of.runs;
  runs[1].episode_rewards = runs[2].episode_rewards = runs[3].episode_rewards;
  const experiment of{.title = "T", .findings = {finding(finding_figure::plateau, 15)}};
  EXPECT_THAT(finding_cells(of, tables)[1], ElementsAre("x", "no rise in most seeds", "<= 15.0", "no"));
}

TEST(Experiment, ComparesAccuracyWhereTheShorterRunEnds) {
  auto slow = runs_of("static", {-1, -1}, 0.9);
  auto fast = runs_of("ppo", {-1, -1}, 0.85);
  for (auto& run : slow.runs) {
    run.series.accuracy_seconds = {10, 20, 30, 40};
    run.series.accuracy = {0.5, 0.6, 0.8, 0.9};
  }
  for (auto& run : fast.runs) {
    run.series.accuracy_seconds = {5, 15, 25};
    run.series.accuracy = {0.6, 0.7, 0.85};
  }
  fast.runs[1].series.accuracy_seconds.back() = 30;
  std::vector<part_tables> tables = {part_of("live", {{slow, fast}})};
  EXPECT_NEAR(judge(finding(finding_figure::equal_time, 100), tables).value.value(), 15, 1e-9)
      << "0.85 against 0.6 and against 0.8";
  auto& late = tables[0].clusters[0].rows[0].of.runs[1].series.accuracy_seconds;
  late = {31, 32, 33, 34};
  const experiment of{.title = "T", .findings = {finding(finding_figure::equal_time, 100)}};
  EXPECT_THAT(finding_cells(of, tables)[1],
              ElementsAre("x", "no evaluation of both by then", "<= +100.00 points", "no"));
}

TEST(Experiment, SaysWhereItsFileIsWrong) {
  const auto read = parse_experiment_text("[experiment]\n"
                                          "title = \"T\"\n"
                                          "[[part]]\n"
                                          "name = \"live\"\n"
                                          "clusters = \"cluster.toml\"\n"
                                          "[[finding]]\n"
                                          "text = \"t\"\n"
                                          "part = \"life\"\n"
                                          "figure = \"second\"\n",
                                          "e.toml");
  ASSERT_EQ(read.errors.size(), 2U);
  EXPECT_EQ(to_string(read.errors[0]),
            "e.toml:8:8: \"life\" is not part of this experiment; did you mean \"live\"? its "
            "parts are \"live\"");
  EXPECT_THAT(to_string(read.errors[1]), HasSubstr("e.toml:9:10: finding.figure is \"second\""));
  EXPECT_THAT(to_string(parse_experiment_text("[experiment]\ntitle = \"T\"\n", "e.toml").errors.at(0)),
              HasSubstr("1 to 64 sections [[part]]"));
}

TEST(Experiment, ThoseThatAreShippedCanBeRead) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source / "deployments" / "experiments")) {
    if (!entry.is_directory())
      continue;
    ++count;
    const auto read = read_experiment(entry.path() / "experiment.toml");
    for (const auto& error : read.errors)
      ADD_FAILURE() << to_string(error);
    for (const auto& part : read.of.parts)
      for (const auto& cluster : part.clusters) {
        EXPECT_TRUE(std::filesystem::exists(entry.path() / cluster)) << entry.path() << ": " << cluster;
        if (!cluster.ends_with(".toml"))
          continue;
        for (const auto& error : cluster::read_cluster_file(entry.path() / cluster).errors)
          ADD_FAILURE() << to_string(error);
      }
  }
  EXPECT_GE(count, 5U);
}

TEST(Experiment, DocumentationListsEveryField) {
  expect_documented("experiments.md", "fields", describe_experiment_markdown());
}

} // namespace
} // namespace dynamix::node
