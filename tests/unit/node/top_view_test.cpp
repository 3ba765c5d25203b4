#include "node/top_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dynamix::node {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

/// As docs/dashboard.md describes it.
json live_state(std::size_t workers) {
  json state = {{"version", 1},
                {"run",
                 {{"cluster", "local-4"},
                  {"policy", "ppo"},
                  {"mode", "train"},
                  {"planned_samples", 20000},
                  {"target_accuracy", 0.885}}},
                {"now",
                 {{"phase", "training"},
                  {"window", 12},
                  {"generation", 2},
                  {"policy_version", 281},
                  {"elapsed_seconds", 65},
                  {"samples", 5000},
                  {"samples_per_second", 500},
                  {"accuracy", 0.75},
                  {"global_batch", 256},
                  {"noise_scale", nullptr},
                  {"reward", -0.25}}},
                {"warnings", {"the reward collapsed"}},
                {"events", {{{"at_seconds", 3.5}, {"event", "joined"}, {"host", "ada"}, {"text", "all are here"}}}},
                {"evaluations", {{{"test_accuracy", 0.8}}}}};
  auto& columns = state["workers"];
  for (std::size_t i = 0; i < workers; ++i) {
    columns["name"].push_back("w" + std::to_string(i));
    columns["state"].push_back(i == 1 ? "lost" : "training");
    columns["batch"].push_back(64 + i);
    columns["decided_batch"].push_back(i == 0 ? 80 : 64 + i);
    columns["samples_per_second"].push_back(100);
    columns["step_seconds"].push_back(0.025);
    columns["guarded"].push_back(i == 0);
    columns["parts"]["compute"].push_back(0.001 * static_cast<double>(i));
    columns["parts"]["barrier"].push_back(0.002);
  }
  return state;
}

std::string drawn(const json& from, const top_screen& screen = {}) {
  const auto state = parse_top_state(from.dump());
  if (!state)
    return "";
  std::string text;
  for (const auto& line : draw(*state, screen)) {
    EXPECT_LE(line.size(), screen.width + (screen.colour ? 16U : 0U)) << line;
    text += line + "\n";
  }
  return text;
}

TEST(top_view, shows_the_run_its_workers_and_what_happened) {
  const auto text = drawn(live_state(3), {.width = 120});
  EXPECT_THAT(text, HasSubstr("local-4  ppo (train) version 281  training  generation 2  window 12  1:05\n"));
  EXPECT_THAT(text, HasSubstr("samples 5,000 of 20,000 (25 %)  500/s  ETA at most 30 s\n"));
  EXPECT_THAT(text, HasSubstr("test accuracy 80.0 % of 88.5 %"));
  EXPECT_THAT(text, HasSubstr("w0        training     64 -> 80          100     25.0      0.0      2.0  guard\n"));
  EXPECT_THAT(text, HasSubstr("w1            lost"));
  EXPECT_THAT(text, HasSubstr("the reward collapsed\n3.5 s  joined ada  all are here\n"));
}

TEST(top_view, keeps_to_the_screen_and_names_the_slowest_of_many) {
  const auto text = drawn(live_state(1024), {.width = 60, .height = 20});
  EXPECT_EQ(std::ranges::count(text, '\n'), 20);
  EXPECT_THAT(text, HasSubstr("w1023"));
  EXPECT_THAT(text, Not(HasSubstr("w7 ")));
  EXPECT_THAT(text, HasSubstr("that compute faster"));
  for (const std::size_t height : {1U, 2U, 5U, 8U})
    EXPECT_LE(std::ranges::count(drawn(live_state(40), {.width = 20, .height = height}), '\n'), height);
}

TEST(top_view, colours_only_where_it_may) {
  EXPECT_THAT(drawn(live_state(2)), Not(HasSubstr("\x1b")));
  EXPECT_THAT(drawn(live_state(2), {.colour = true}), HasSubstr("\x1b[31m"));
}

TEST(top_view, takes_what_is_no_state_for_none_and_bears_missing_fields) {
  EXPECT_FALSE(parse_top_state(""));
  EXPECT_FALSE(parse_top_state("<html>"));
  EXPECT_FALSE(parse_top_state("[]"));
  EXPECT_FALSE(parse_top_state("{\"run\":{}}"));
  const auto empty = parse_top_state(R"({"run":{},"now":{}})");
  ASSERT_TRUE(empty);
  EXPECT_FALSE(draw(*empty, {}).empty());
  const auto odd = parse_top_state(
      R"({"run":{"cluster":3},"now":{"window":"x"},"workers":{"name":["a\u001bb"],"batch":[null]},"warnings":[1]})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->workers.at(0).name, "a b");
  EXPECT_FALSE(draw(*odd, {}).empty());
}

} // namespace
} // namespace dynamix::node
