#include "tests/unit/trainer/tiny_images.hpp"
#include "trainer/step_time_measurement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::trainer {
namespace {

/// A millisecond passes between two looks at it.
class counting_clock final : public clock {
public:
  double now_seconds() const override { return static_cast<double>(++looks_) / 1000; }
  void sleep_seconds(double) override { FAIL() << "nothing is to be slowed down"; }

private:
  mutable std::uint64_t looks_ = 0;
};

class StepTimeMeasurementOfImages : public testing::Test {
protected:
  StepTimeMeasurementOfImages() {
    write_images(data, "train", 40);
    request.training.data_path = data.path();
    request.training.device = "cpu";
  }
  step_time_measurement measure() {
    return measure_step_times(request, time, [this](const std::string& line) { lines.push_back(line); });
  }

  temporary_directory data;
  step_time_request request;
  counting_clock time;
  std::vector<std::string> lines;
};

TEST_F(StepTimeMeasurementOfImages, MeasuresEveryBatchSizeOnceInEveryRound) {
  request.batches = {8, 1, 64, 8};
  request.seconds_per_batch = 0.005;
  const auto measured = measure();
  EXPECT_EQ(measured.problem, "");
  EXPECT_FALSE(measured.cuda);
  EXPECT_EQ(measured.batch_highest, 0U) << "all of them fitted";
  EXPECT_NEAR(measured.evaluation_seconds, 0.001 / 40, 1e-12);
  ASSERT_EQ(measured.steps.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(measured.steps[i].batch, (std::vector{1U, 8U, 64U})[i]);
    EXPECT_EQ(measured.steps[i].steps, 5U) << "a step is longer than a round's share";
    EXPECT_GT(measured.steps[i].seconds, 0);
  }
  EXPECT_THAT(lines, testing::ElementsAre("warm-up, batch 1", "warm-up, batch 8", "warm-up, batch 64",
                                          "round 1 of 5, batch 1", "round 1 of 5, batch 8", "round 1 of 5, batch 64",
                                          "round 2 of 5, batch 64", "round 2 of 5, batch 8", "round 2 of 5, batch 1",
                                          "round 3 of 5, batch 1", "round 3 of 5, batch 8", "round 3 of 5, batch 64",
                                          "round 4 of 5, batch 64", "round 4 of 5, batch 8", "round 4 of 5, batch 1",
                                          "round 5 of 5, batch 1", "round 5 of 5, batch 8", "round 5 of 5, batch 64"));
}

TEST_F(StepTimeMeasurementOfImages, TakesAsManyStepsAsTheTimeAllows) {
  request.batches = {2};
  request.seconds_per_batch = 0.005;
  const double step_seconds = measure().steps.at(0).seconds;
  request.seconds_per_batch = 5 * 4 * step_seconds;
  const auto measured = measure();
  EXPECT_NEAR(measured.steps.at(0).seconds, step_seconds, 1e-9) << "likewise";
  EXPECT_NEAR(static_cast<double>(measured.steps.at(0).steps), 5 * 4, 5) << "sums of durations are rounded";
}

TEST_F(StepTimeMeasurementOfImages, SaysWhatIsMissing) {
  request.batches = {2};
  request.training.data_path = data.path() + "/nowhere";
  EXPECT_THAT(measure().problem, testing::HasSubstr("nowhere"));
  request.training.dataset = cluster::dataset_kind::cifar10; // lenet takes no colours, or the folder is missing
  EXPECT_NE(measure().problem, "");
}

} // namespace
} // namespace dynamix::trainer
