#include "node/experiments/training_files.hpp"
#include "node/experiments/training_report.hpp"
#include "storage/atomic_file.hpp"
#include "storage/tensor_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/dashboard/inlined_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::node {
namespace {

using ::testing::HasSubstr;

simulator::training_curve short_curve() {
  simulator::training_curve curve(3);
  curve[0].against_goodput = 0.75;
  curve[0].against_static = 1.5;
  for (std::size_t i = 1; i < 3; ++i)
    curve[i] = {.update = static_cast<double>(i),
                .windows = 1000.0 * static_cast<double>(i),
                .transitions = 64,
                .reward = -0.5 / static_cast<double>(i),
                .entropy = 1.25,
                .approximate_kl = 0.0125};
  return curve;
}

const training_origin training_start = {.command = "dynamix-node train-policy --out p",
                                        .commit = "abc+",
                                        .seed = 7,
                                        .policy = "ppo",
                                        .scenarios = {"equal <4>", "straggler"}};

TEST(TrainingReport, ShowsHowFarATrainingIs) {
  const training_pace pace = {
      .update = 2, .updates = 400, .windows = 2000, .windows_per_second = 1234.5, .seconds_left = 75};
  EXPECT_EQ(training_line(pace, short_curve()),
            "update 2/400  2,000 windows  1,234 windows/s  reward -0.250  entropy 1.250  KL 0.0125  "
            "validation 0.750 of goodput  ETA 1:15");
  EXPECT_EQ(training_line({.update = 0, .updates = 400}, {}), "update 0/400  0 windows");
}

TEST(TrainingReport, WritesTheCurveWithGapsWhereNothingWasMeasured) {
  EXPECT_EQ(curve_csv(short_curve()),
            "update,windows,transitions,reward,policy_loss,value_loss,entropy,approximate_kl,clip_fraction,"
            "against_goodput,against_static\n"
            "0,0,0,,0,0,0,0,0,0.75,1.5\n"
            "1,1000,64,-0.5,0,0,1.25,0.0125,0,,\n"
            "2,2000,64,-0.25,0,0,1.25,0.0125,0,,\n");
}

TEST(TrainingReport, MakesAPageOfOriginValidationAndCharts) {
  SKIP_WITHOUT_PAGE();
  const simulator::validation_scores best = {
      .rows = {{"equal <4>", 1.01, 1.2}, {"straggler", 1.1, 3.5}}, .against_goodput = 1.054, .against_static = 2.049};
  const auto page = dashboard::testing::inlined_data(training_page(training_start, short_curve(), best));
  EXPECT_EQ(page["command"], "dynamix-node train-policy --out p");
  ASSERT_EQ(page["sections"].size(), 3U);
  EXPECT_EQ(page["sections"][0]["table"][1], nlohmann::json({"7", "2", "2,000", "abc+"}));
  EXPECT_EQ(page["sections"][1]["table"], nlohmann::json(validation_rows(best)));
  const auto& charts = page["sections"][2]["charts"];
  ASSERT_EQ(charts.size(), 6U);
  EXPECT_EQ(charts[0]["lines"][0]["x"], nlohmann::json({1, 2})) << "the fresh policy has no reward yet";
  EXPECT_EQ(charts[0]["lines"][0]["y"], nlohmann::json({-0.5, -0.25}));
  EXPECT_EQ(charts[1]["lines"][0]["x"], nlohmann::json({0}));
  EXPECT_EQ(dashboard::testing::inlined_data(training_page(training_start, {}, std::nullopt))["sections"].size(), 2U);
}

TEST(TrainingFiles, KeepAPolicyWithWhereItComesFrom) {
  const temporary_directory directory;
  const training_files files(directory.path() + "/best.policy");
  EXPECT_EQ(files.page(), directory.path() + "/best.html");
  storage::tensor_file tensors;
  tensors.metadata["format"] = "anything";
  tensors.tensors.push_back({.name = "weights", .shape = {1}, .data = {0, 0, 128, 63}});
  ASSERT_EQ(files.write_policy(storage::encode(tensors), training_start), "");

  std::vector<std::uint8_t> bytes;
  ASSERT_EQ(files.read_policy(bytes), "");
  storage::tensor_file read;
  ASSERT_EQ(storage::decode(bytes, read), "");
  EXPECT_EQ(read.metadata["format"], "anything");
  EXPECT_EQ(read.metadata["command"], training_start.command);
  EXPECT_EQ(read.metadata["commit"], "abc+");
  EXPECT_EQ(read.metadata["seed"], "7");
  EXPECT_EQ(read.metadata["scenarios"], "equal <4>\nstraggler");
  ASSERT_NE(read.find("weights"), nullptr);
  EXPECT_EQ(read.find("weights")->data, tensors.tensors[0].data);
}

TEST(TrainingFiles, GiveBackWhatATrainingGoesOnFrom) {
  const temporary_directory directory;
  const training_files files(directory.path() + "/p");
  std::vector<std::uint8_t> saved;
  training_origin before;
  EXPECT_THAT(files.read_training(saved, before), HasSubstr(directory.path() + "/p.training"));
  ASSERT_EQ(files.write_training(storage::encode({}), training_start), "");
  ASSERT_EQ(files.read_training(saved, before), "");
  EXPECT_EQ(before.command, training_start.command);
  EXPECT_EQ(before.commit, training_start.commit);
  EXPECT_EQ(before.seed, 7U);
  EXPECT_EQ(before.scenarios, training_start.scenarios);
  ASSERT_EQ(storage::write_file_atomically(files.training(), std::string("damaged")), "");
  EXPECT_THAT(files.read_training(saved, before), HasSubstr(files.training()));
}

} // namespace
} // namespace dynamix::node
