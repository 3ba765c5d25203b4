#include "client/introduction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace dynamix::client {
namespace {

introduction introduction_of(std::uint32_t position) {
  return {.version = introduction_version,
          .position = position,
          .members = 3,
          .batch = {.initial = 8 + position, .lowest = 2, .highest = 64},
          .samples = 1000,
          .seed = 40 + position,
          .shuffled = true,
          .drop_last = false,
          .rule = messages::rate_rule::adascale,
          .adaptive = true,
          .noise_interval = 7,
          .window_steps = 20,
          .balances = messages::balancing::shares,
          .has_agent = true,
          .rank = 5 - position,
          .workers = 6,
          .cluster_seed = 99};
}

std::vector<introduction> three() {
  return {introduction_of(0), introduction_of(1), introduction_of(2)};
}

TEST(Introduction, ComesBackFromItsColumns) {
  auto all = three();
  for (auto& each : all)
    each = decode_introduction(encode(each));
  lockstep_options begun;
  ASSERT_EQ(fit_together(all, 1, begun), "");
  EXPECT_EQ(begun.position, 1U);
  ASSERT_EQ(begun.members.size(), 3U);
  EXPECT_EQ(begun.members[2].initial, 10U);
  EXPECT_EQ(begun.members[2].lowest, 2U);
  EXPECT_EQ(begun.members[2].highest, 64U);
  EXPECT_EQ(begun.samples, 1000U);
  EXPECT_EQ(begun.seed, 40U) << "of the first member";
  EXPECT_TRUE(begun.shuffled);
  EXPECT_FALSE(begun.drop_last);
  EXPECT_EQ(begun.rule, messages::rate_rule::adascale);
  EXPECT_TRUE(begun.adaptive);
  EXPECT_EQ(begun.noise_interval, 7U);
  EXPECT_EQ(begun.window_steps, 20U);
  EXPECT_EQ(begun.balances, messages::balancing::shares);
}

TEST(Introduction, TellsThatNoStepWouldBeLeft) {
  auto all = three(); // of 27 samples per step
  lockstep_options begun;
  for (auto& each : all) {
    each.drop_last = true;
    each.samples = 27;
  }
  EXPECT_EQ(fit_together(all, 1, begun), "");
  for (auto& each : all)
    each.samples = 26;
  EXPECT_THAT(fit_together(all, 1, begun),
              ::testing::HasSubstr("no step of an epoch of 26 samples, fewer than the 27"));
  for (auto& each : all)
    each.drop_last = false;
  EXPECT_EQ(fit_together(all, 1, begun), "");
}

TEST(Introduction, TellsWhatDoesNotFitTogether) {
  const std::vector<std::pair<std::string, std::function<void(introduction&)>>> cases = {
      {"version of the library is 6 on member 0 and 7 on member 1", [](auto& of) { of.version = 7; }},
      {"number of members", [](auto& of) { of.members = 4; }},
      {"samples per epoch is 1000 on member 0 and 999 on member 1; give all the whole data set, not a part by rank",
       [](auto& of) { of.samples = 999; }},
      {"shuffle", [](auto& of) { of.shuffled = false; }},
      {"drop_last", [](auto& of) { of.drop_last = true; }},
      {"rule", [](auto& of) { of.rule = messages::rate_rule::linear; }},
      {"optimiser", [](auto& of) { of.adaptive = false; }},
      {"noise", [](auto& of) { of.noise_interval = 8; }},
      {"steps per window", [](auto& of) { of.window_steps = 10; }},
      {"whether there is an agent", [](auto& of) { of.has_agent = false; }},
      {"cluster file's workers", [](auto& of) { of.workers = 7; }},
      {"cluster file's seed", [](auto& of) { of.cluster_seed = 98; }},
      {"rows go by position", [](auto& of) { of.position = 2; }},
      {"members 0 and 1 are both served as worker 5", [](auto& of) { of.rank = 5; }}};
  for (const auto& [text, change] : cases) {
    auto all = three();
    change(all[1]);
    lockstep_options begun;
    const auto problem = fit_together(all, 0, begun);
    EXPECT_THAT(problem, testing::HasSubstr(text));
    EXPECT_EQ(fit_together(all, 2, begun), problem) << "the same on all members";
  }
}

} // namespace
} // namespace dynamix::client
