#include "policy/accuracy_history.hpp"
#include "samples.hpp"

#include <gtest/gtest.h>

namespace dynamix::policy {
namespace {

messages::window_report report_with(std::uint64_t generation, std::uint64_t window, double accuracy) {
  auto report = testing::make_report(3, window, 64);
  report.generation = generation;
  report.training.accuracy = accuracy;
  return report;
}

TEST(AccuracyHistory, GivesTheAccuracyOfTheSameWorkersWindowBefore) {
  accuracy_history history;
  EXPECT_LT(history.previous(report_with(1, 1, 0.5)), 0);
  EXPECT_LT(history.previous(testing::make_report(4, 1, 64)), 0);
  EXPECT_EQ(history.previous(report_with(1, 2, 0.6)), 0.5);
  EXPECT_EQ(history.previous(report_with(1, 3, 0.7)), 0.6);
}

TEST(AccuracyHistory, AReportThatComesAgainGetsTheSameAnswer) {
  accuracy_history history;
  history.previous(report_with(1, 1, 0.5));
  EXPECT_EQ(history.previous(report_with(1, 2, 0.6)), 0.5);
  EXPECT_EQ(history.previous(report_with(1, 2, 0.6)), 0.5);
  EXPECT_EQ(history.previous(report_with(1, 3, 0.7)), 0.6);
}

TEST(AccuracyHistory, ANewGenerationAndAForgottenWorkerStartAnew) {
  accuracy_history history;
  history.previous(report_with(1, 5, 0.5));
  EXPECT_LT(history.previous(report_with(2, 1, 0.6)), 0);
  EXPECT_EQ(history.previous(report_with(2, 2, 0.6)), 0.6);
  history.forget(3);
  EXPECT_LT(history.previous(report_with(2, 3, 0.6)), 0);
}

} // namespace
} // namespace dynamix::policy
