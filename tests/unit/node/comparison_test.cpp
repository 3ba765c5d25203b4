#include "node/experiments/comparison.hpp"
#include "tests/unit/dashboard/inlined_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dynamix::node {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

run_outcome run(const std::string& policy, std::uint64_t seed, double seconds) {
  return {.policy = policy,
          .seed = seed,
          .seconds = seconds < 0 ? 100 : seconds,
          .seconds_to_target = seconds,
          .final_accuracy = 0.88,
          .samples = 50'000,
          .windows = 10,
          .decisions = 40,
          .interventions = seed,
          .series = {.accuracy_seconds = {0, 10},
                     .accuracy = {0.1, 0.88},
                     .batch_seconds = {1, 2},
                     .batch_names = {"ada"},
                     .batches = {{64, 96}}}};
}

policy_runs runs(const std::string& policy, const std::vector<double>& seconds, std::uint32_t static_batch = 0) {
  policy_runs of{.policy = policy, .static_batch = static_batch, .runs = {}};
  for (std::size_t i = 0; i < seconds.size(); ++i)
    of.runs.push_back(run(policy, i + 1, seconds[i]));
  return of;
}

comparison pair(std::vector<policy_runs> policies, const std::string& cluster = "pair") {
  return compare({.cluster = cluster, .path = "pair.toml", .target_accuracy = 0.88, .simulated = true},
                 std::move(policies));
}

TEST(Comparison, NotesHowARewardRoseOverEpisodes) {
  auto learned = runs("ppo-simple", {50, 51, 52});
  learned.runs[0].episode_rewards = {-1, -1, 0, 0, 0, 0, 0, 0, 0};
  learned.runs[1].episode_rewards = {-1, -1, -1, -1, 0, 0, 0, 0, 0};
  learned.runs[2].episode_rewards = {0, 0, 0, 0, 0, 0, 0, 0, 0};
  const auto made = pair({runs("static", {100, 100, 100}), learned});
  EXPECT_THAT(made.notes, ElementsAre("ppo-simple: reward -0.667 in the first of 9 episodes, 0.000 in the last third; "
                                      "rising in 2 of 3 seeds, 95 % of the way in episode 5.0 (median; 4 to 6)"));
  EXPECT_THAT(to_page({made}, "compare"), HasSubstr("Mean reward of an episode"));
  EXPECT_THAT(to_page({pair({runs("static", {100})})}, "compare"), Not(HasSubstr("Mean reward of an episode")));
}

TEST(Comparison, RatiosAreOfMeansWithTheSeedsSpread) {
  const auto made = pair({runs("static", {100, 102}), runs("static-best", {60, 60}, 128), runs("lb-bsp", {55, 57}),
                          runs("goodput", {50, 54}), runs("ppo", {50, 51}), runs("oracle", {48, 48})});
  const auto& ppo = made.rows[4];
  EXPECT_EQ(ppo.seconds_to_target.mean, 50.5);
  EXPECT_NEAR(ppo.seconds_to_target.half_width, 12.7062 * 0.5, 1e-3) << "s = sqrt(0.5), over sqrt(2)";
  EXPECT_DOUBLE_EQ(ppo.to_static->mean, 0.5);
  EXPECT_NEAR(ppo.to_static->half_width, 0, 1e-12) << "half of static's in both seeds";
  EXPECT_DOUBLE_EQ(ppo.to_static_best->mean, 50.5 / 60);
  EXPECT_EQ(made.best_rival, "goodput") << "52 on average";
  EXPECT_DOUBLE_EQ(ppo.to_best_rival->mean, 50.5 / 52);
  EXPECT_DOUBLE_EQ(ppo.to_oracle->mean, 50.5 / 48);
  EXPECT_EQ(made.rows[0].to_static->mean, 1);
  EXPECT_DOUBLE_EQ(ppo.samples_per_second.mean, (1000.0 + 50'000.0 / 51) / 2);
  EXPECT_EQ(ppo.interventions.mean, 1.5);
  EXPECT_THAT(made.warnings, IsEmpty());
}

TEST(Comparison, HasNoRatioWhereARunNeverReachedTheTarget) {
  const auto made = pair({runs("static", {100, -1}), runs("lb-bsp", {70, -1}), runs("ppo", {50, 52})});
  EXPECT_EQ(made.rows[0].reached, 1U);
  EXPECT_FALSE(made.rows[2].to_static) << "static never reached it with the second seed";
  EXPECT_EQ(made.best_rival, "");
  EXPECT_FALSE(made.rows[2].to_best_rival);
  EXPECT_FALSE(made.rows[2].to_oracle) << "there is none";
  EXPECT_THAT(to_text(made), HasSubstr("never (1/2)"));
  EXPECT_THAT(to_text(made), HasSubstr("1/2"));
}

TEST(Comparison, WarnsOfSeedsThatDifferAndOfRunsThatFailed) {
  auto policies = std::vector{runs("ppo", {40, 80}), runs("static", {90, 91})};
  policies[1].runs[1].failure = "out of memory";
  const auto made = pair(std::move(policies));
  ASSERT_EQ(made.warnings.size(), 2U);
  EXPECT_THAT(made.warnings[0], HasSubstr("high variance between runs: the seconds to target of ppo vary by 47 %"));
  EXPECT_THAT(made.warnings[1], HasSubstr("1 of 2 runs of static failed; seed 2: out of memory"));
  EXPECT_EQ(made.rows[1].final_accuracy.count, 1U) << "a failed run has no figures";
  EXPECT_EQ(made.rows[1].reached, 1U);
}

TEST(Comparison, PrintsOneTable) {
  const auto text =
      to_text(pair({runs("static", {100, 104}), runs("static-best", {9, 9}, 128), runs("ppo", {52, 54})}));
  EXPECT_THAT(text, HasSubstr("pair: seconds to 88.00 % test accuracy, 2 seeds, mean ± 95 % interval, simulated\n"));
  EXPECT_THAT(text, HasSubstr("static-best (128)"));
  EXPECT_THAT(text, HasSubstr("  102.0 ± 25.4")) << "12.7062 * 2";
  EXPECT_THAT(text, HasSubstr("    9.0 ± 0.0")) << "numbers stand below each other";
  EXPECT_THAT(text, HasSubstr("0.52"));
}

TEST(Comparison, SaysInWordsWhoWasFirstAndWhetherTheSeedsTellThemApart) {
  const auto fast = runs("ppo", {50, 50.2});
  EXPECT_EQ(verdict_of(pair({runs("static", {100, 100.4}), runs("lb-bsp", {50, 52}), fast, runs("oracle", {9, 9})})),
            "ppo reached 88.00 % 2.00 times sooner than static (50.1 s and 100.2 s; their intervals do not overlap), "
            "and 1.02 times sooner than lb-bsp (50.1 s and 51.0 s; their intervals overlap, so these seeds do not tell "
            "the two apart).");
  EXPECT_EQ(verdict_of(pair({runs("static", {100, -1}), runs("lb-bsp", {70, 70}), fast})),
            "ppo reached 88.00 % 1.40 times sooner than lb-bsp (50.1 s and 70.0 s; their intervals do not overlap). "
            "Not with every seed: static.");
  EXPECT_EQ(verdict_of(pair({runs("static", {40, 40}), runs("ppo", {50, 50})})),
            "static reached 88.00 % 1.25 times sooner than ppo (40.0 s and 50.0 s; their intervals do not overlap).");
  EXPECT_EQ(verdict_of(pair({runs("static", {100}), runs("ppo", {50})})),
            "ppo reached 88.00 % 2.00 times sooner than static (50.0 s and 100.0 s). With one seed, chance is not told "
            "from a difference (--seeds).");
  EXPECT_EQ(verdict_of(pair({runs("static", {-1}), runs("ppo", {-1})})), "No policy reached 88.00 % with every seed.");
  EXPECT_THAT(to_text(pair({runs("static", {100, 104}), fast})), HasSubstr("simulated\n  ppo reached 88.00 % 2.04"));
}

TEST(Comparison, HasColumnsOnlyForBaselinesThatWereCompared) {
  EXPECT_THAT(
      cells_of(pair({runs("static", {100}), runs("ppo", {50})})).front(),
      ElementsAre("policy", "seconds", "reached", "accuracy", "samples/s", "decisions", "interventions", "/ static"));
  const auto without_static = cells_of(pair({runs("oracle", {40}), runs("omnilearn", {50})}));
  EXPECT_EQ(without_static[2].back(), "1.25");
  EXPECT_EQ(without_static[0].back(), "/ oracle");
  EXPECT_EQ(cells_of(pair({runs("static", {-1}), runs("ppo", {50})}))[2].back(), "-") << "static never got there";
}

TEST(Comparison, NeedsNoIntervalForOneSeed) {
  const auto made = pair({runs("static", {100}), runs("ppo", {50})});
  EXPECT_THAT(to_text(made), HasSubstr("1 seed,"));
  EXPECT_THAT(to_text(made), Not(HasSubstr("±")));
  const auto rows = nlohmann::json::parse(to_json(std::vector{made}));
  EXPECT_EQ(rows[1]["ratio_to_static"]["mean"], 0.5);
  EXPECT_TRUE(rows[1]["ratio_to_static"]["low"].is_null());
}

TEST(Comparison, ClosesWithARowAClusterAndTheirMedian) {
  const std::vector all = {pair({runs("static", {100, 100}), runs("ppo", {50, 50})}, "one"),
                           pair({runs("static", {100, 100}), runs("ppo", {70, 70})}, "two"),
                           pair({runs("static", {100, 100}), runs("ppo", {-1, 70})}, "three")};
  EXPECT_THAT(closing_cells(all),
              ElementsAre(ElementsAre("seconds / static's", "static", "ppo"), ElementsAre("one", "1.00", "0.50"),
                          ElementsAre("two", "1.00", "0.70"), ElementsAre("three", "1.00", "-"),
                          ElementsAre("median", "1.00", "0.60")));
  EXPECT_EQ(closing_text({all.front()}), "") << "one cluster has its own table";
}

TEST(Comparison, RowsAsJsonHoldStatistics) {
  const auto rows = nlohmann::json::parse(
      to_json(std::vector{pair({runs("static", {100, 102}), runs("static-best", {-1, 60}, 128)})}));
  ASSERT_EQ(rows.size(), 2U);
  const auto& first = rows[0];
  EXPECT_EQ(first["cluster"], "pair");
  EXPECT_EQ(first["policy"], "static");
  EXPECT_EQ(first["seeds"], 2);
  EXPECT_EQ(first["seconds_to_target"]["mean"], 101);
  EXPECT_NEAR(first["seconds_to_target"]["low"].get<double>(), 101 - 12.7062, 1e-3);
  EXPECT_NEAR(first["seconds_to_target"]["high"].get<double>(), 101 + 12.7062, 1e-3);
  EXPECT_EQ(first["seconds_to_target"]["n"], 2);
  EXPECT_EQ(first["final_accuracy"]["mean"], 0.88);
  EXPECT_EQ(first["decisions"]["mean"], 40);
  EXPECT_EQ(first["ratio_to_static"]["mean"], 1);
  EXPECT_TRUE(first["ratio_to_oracle"].is_null());
  const auto& second = rows[1];
  EXPECT_EQ(second["static_batch"], 128);
  EXPECT_EQ(second["reached"], 1);
  EXPECT_EQ(second["seconds_to_target"]["n"], 1);
  EXPECT_TRUE(second["ratio_to_static"].is_null());
  EXPECT_TRUE(second["runs"][0]["seconds_to_target"].is_null());
}

TEST(Comparison, DrawsNoBandWhereAPolicyHasEnded) {
  SKIP_WITHOUT_PAGE();
  auto quick = runs("ppo", {5, 5});
  for (auto& run : quick.runs)
    run.series.accuracy_seconds = {0, 5};
  const auto page = dashboard::testing::inlined_data(to_page({pair({runs("static", {10, 10}), quick}, "one")}, ""));
  const auto& line = page["sections"][0]["charts"][1]["lines"][1];
  for (const auto* edge : {"y", "low", "high"}) {
    EXPECT_TRUE(line[edge].front().is_number()) << edge;
    EXPECT_TRUE(line[edge].back().is_null()) << edge;
  }
}

TEST(Comparison, MakesAPageWithTablesAndCharts) {
  SKIP_WITHOUT_PAGE();
  const std::vector all = {pair({runs("static", {100, 102}), runs("ppo", {50, 51})}, "one"),
                           pair({runs("static", {100, 102}), runs("ppo", {-1, -1})}, "a<b")};
  const auto page = dashboard::testing::inlined_data(to_page(all, "dynamix-node compare --cluster \"x\""));
  EXPECT_EQ(page["command"], "dynamix-node compare --cluster \"x\"");
  ASSERT_EQ(page["sections"].size(), 3U);
  EXPECT_EQ(page["sections"][0]["heading"], "All clusters");
  const auto& section = page["sections"][2];
  EXPECT_EQ(section["heading"], "a<b");
  EXPECT_EQ(section["table"], nlohmann::json(cells_of(all[1])));
  std::vector<std::string> titles;
  for (const auto& chart : section["charts"])
    titles.push_back(chart["title"]);
  EXPECT_THAT(titles, IsSupersetOf({"Test accuracy, mean of the seeds and 95 % interval",
                                    "Where a step's time goes, mean of all", "ppo: batch sizes"}));
  const auto& accuracy = section["charts"][1]["lines"][0];
  EXPECT_EQ(accuracy["low"].size(), accuracy["x"].size());
  EXPECT_EQ(accuracy["y"].back(), 0.88);
  EXPECT_EQ(accuracy["low"].back(), 0.88) << "the seeds agree";
  const auto& seconds = section["charts"][0]["rows"];
  EXPECT_EQ(seconds[0]["values"][0], 101);
  EXPECT_LT(seconds[0]["low"], 101);
  EXPECT_TRUE(seconds[1]["values"][0].is_null());
  EXPECT_EQ(seconds[1]["note"], "not reached by all");
}

} // namespace
} // namespace dynamix::node
