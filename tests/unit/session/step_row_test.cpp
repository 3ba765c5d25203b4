#include "session/step_row.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dynamix::session {
namespace {

/// The column of the request, behind two decisions of four numbers.
constexpr std::size_t request_column = 8;

step_row filled() {
  step_row row;
  row.held[0] = {.key = {3, 7}, .batch = 1U << 20, .first_step = 1'000'000'000'000};
  row.held[1] = {.key = {3, 6}, .batch = 32, .first_step = 3};
  row.request = step_request::regroup;
  row.without_agent = true;
  row.dealt = 14;
  row.step = 12;
  row.digest = 0xfedcba9876543210;
  row.weight = 64.5;
  row.weighted_square = 0x1p-100;
  row.highest_batch = 512;
  row.pace = {.fixed_seconds = -0.25, .sample_seconds = 1e-6, .error = 0.125};
  row.total_batch = 4096;
  row.cores = {.set = 0xfedcba98, .cpus = 4096, .demand_percent = 65'000};
  return row;
}

TEST(StepRow, IsTheSameBehindItsNumbers) {
  const auto before = filled();
  const auto after = decode_step_row(encode(before));
  for (std::size_t i = 0; i < before.held.size(); ++i) {
    EXPECT_EQ(after.held[i].key, before.held[i].key);
    EXPECT_EQ(after.held[i].batch, before.held[i].batch);
    EXPECT_EQ(after.held[i].first_step, before.held[i].first_step);
  }
  EXPECT_EQ(after.request, before.request);
  EXPECT_EQ(after.without_agent, before.without_agent);
  EXPECT_EQ(after.dealt, before.dealt);
  EXPECT_EQ(after.step, before.step);
  EXPECT_EQ(after.digest, before.digest);
  EXPECT_EQ(after.weight, before.weight);
  EXPECT_EQ(after.weighted_square, before.weighted_square);
  EXPECT_EQ(after.highest_batch, before.highest_batch);
  EXPECT_EQ(after.pace.fixed_seconds, before.pace.fixed_seconds);
  EXPECT_EQ(after.pace.sample_seconds, before.pace.sample_seconds);
  EXPECT_EQ(after.pace.error, before.pace.error);
  EXPECT_EQ(after.total_batch, before.total_batch);
  EXPECT_EQ(after.cores.set, before.cores.set);
  EXPECT_EQ(after.cores.cpus, before.cores.cpus);
  EXPECT_EQ(after.cores.demand_percent, before.cores.demand_percent);
}

TEST(StepRow, HasAColumnForEachNumberThatDistinguishesIt) {
  const auto zeros = encode(step_row{.highest_batch = 0});
  const auto numbers = encode(filled());
  for (std::size_t column = 0; column < numbers.size(); ++column)
    EXPECT_NE(numbers[column], zeros[column]) << "column " << column << " is not written, or `filled` leaves it out";
}

TEST(StepRow, TakesAnUnknownRequestOfAPeerForTheStrongestItKnows) {
  auto numbers = encode({});
  numbers[request_column] = 77;
  EXPECT_EQ(decode_step_row(numbers).request, step_request::stop);
  numbers[request_column] = -1;
  EXPECT_EQ(decode_step_row(numbers).request, step_request::stop);
}

TEST(StepRow, HasNoPaceWhereItsNumbersCannotBeAStepS) {
  const auto of = [](policy::pace_estimate told) {
    step_row row;
    row.pace = told;
    return decode_step_row(encode(row)).pace.measured();
  };
  EXPECT_TRUE(of({.fixed_seconds = 0, .sample_seconds = 1e-3, .error = 0}));
  for (const double wrong : {std::nan(""), std::numeric_limits<double>::infinity(), -1.0, 1e300})
    EXPECT_FALSE(of({.fixed_seconds = 0, .sample_seconds = wrong, .error = 0})) << wrong;
  EXPECT_FALSE(of({.fixed_seconds = std::nan(""), .sample_seconds = 1e-3, .error = 0}));
  EXPECT_FALSE(of({.fixed_seconds = 0, .sample_seconds = 1e-3, .error = 2}));
}

TEST(StepRow, KeepsBatchesWithinWhatAnyWorkerMayHave) {
  auto numbers = encode({});
  for (auto& number : numbers)
    number = -1;
  const auto row = decode_step_row(numbers);
  EXPECT_EQ(row.held[0].batch, messages::max_batch);
  EXPECT_EQ(row.highest_batch, messages::max_batch);
  EXPECT_EQ(row.total_batch, messages::max_global_batch);
  for (auto& number : numbers)
    number = 0;
  EXPECT_EQ(decode_step_row(numbers).highest_batch, 1U);
}

} // namespace
} // namespace dynamix::session
