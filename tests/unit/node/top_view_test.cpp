#include "node/commands/top_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dynamix::node {
namespace {

using nlohmann::json;
using ::testing::Contains;
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
    columns["parts"]["cpu_wait"].push_back(0.007);
    columns["parts"]["barrier"].push_back(0.002);
  }
  return state;
}

std::string drawn(const json& from, const top_screen& screen = {}) {
  const auto lines = draw_top(from.dump(), screen);
  std::string text;
  for (const auto& line : lines.value_or(std::vector<std::string>())) {
    EXPECT_LE(line.size(), screen.width + (screen.colour ? 16U : 0U)) << line;
    text += line + "\n";
  }
  return text;
}

TEST(TopView, ShowsTheRunItsWorkersAndWhatHappened) {
  const auto text = drawn(live_state(3), {.width = 120});
  EXPECT_THAT(text, HasSubstr("local-4  ppo (train) version 281  training  generation 2  window 12  1:05\n"));
  EXPECT_THAT(text, HasSubstr("samples 5,000 of 20,000 (25 %)  500/s  ETA at most 30 s\n"));
  EXPECT_THAT(text, HasSubstr("test accuracy 80.0 % (target 88.5 %)"));
  EXPECT_THAT(text, HasSubstr("worker  state     batch     samples/s  step ms  compute   no CPU  waiting\n"
                              "w0      training  64 -> 80        100     25.0      0.0      7.0      2.0  guard\n"));
  EXPECT_THAT(text, HasSubstr("w1      lost "));
  EXPECT_THAT(text, HasSubstr("noise scale -  reward -0.250\n"));
  EXPECT_THAT(text, HasSubstr("the reward collapsed\n3.5 s  joined ada  all are here\n"));
}

TEST(TopView, CutsNoNumberWhereTheScreenIsNarrow) {
  auto state = live_state(2);
  state["now"]["global_batch"] = 123456;
  state["workers"]["name"] = {"worker-with-a-long-name", "w1"};
  state["workers"]["batch"] = {12345, 64};
  state["workers"]["decided_batch"] = {23456, 64};
  state["events"][0]["text"] =
      "the exchange of gradients is by ring, predicted to take 12.25 ms of each step of 123456";
  for (const std::size_t width : {68U, 72U, 80U, 100U}) {
    const auto text = drawn(state, {.width = width});
    EXPECT_THAT(text, ::testing::ContainsRegex("global batch 123,456(  |\n)")) << text;
    EXPECT_THAT(text, HasSubstr("worker-with-a-long-name")) << text;
    EXPECT_THAT(text, ::testing::ContainsRegex("12,345 -> 23,456 .* 25\\.0 +0\\.0")) << text;
    EXPECT_THAT(text, Not(::testing::ContainsRegex("step of 1[0-9]*\n"))) << text;
    EXPECT_THAT(text, HasSubstr("reward -0.250\n")) << text;
  }
  EXPECT_THAT(drawn(live_state(2)), HasSubstr("  compute   no CPU  waiting")) << "short names leave room for all of it";
}

TEST(TopView, ShowsNoTimeWhereNoneWasMeasured) {
  auto state = live_state(2);
  state["workers"]["step_seconds"][1] = nullptr;
  state["workers"]["samples_per_second"][1] = nullptr;
  EXPECT_THAT(drawn(state, {.width = 120}),
              HasSubstr("w1      lost      65                -        -        -        -        -\n"));
}

TEST(TopView, ShowsNoAccuracyWhereAScriptTellsNone) {
  auto state = live_state(2);
  state["now"]["accuracy"] = state["now"]["reward"] = state["evaluations"][0]["test_accuracy"] = nullptr;
  const auto text = drawn(state, {.width = 120});
  EXPECT_THAT(text, HasSubstr("test accuracy - (target 88.5 %)  batches -  global batch 256"));
  EXPECT_THAT(text, HasSubstr("reward -\n"));
}

TEST(TopView, KeepsToTheScreenAndNamesTheSlowestOfMany) {
  const auto text = drawn(live_state(1024), {.width = 60, .height = 20});
  EXPECT_EQ(std::ranges::count(text, '\n'), 20);
  EXPECT_THAT(text, HasSubstr("w1023"));
  EXPECT_THAT(text, Not(HasSubstr("w7 ")));
  EXPECT_THAT(text, HasSubstr("that compute faster"));
  for (const std::size_t height : {1U, 2U, 5U, 8U})
    EXPECT_LE(std::ranges::count(drawn(live_state(40), {.width = 20, .height = height}), '\n'), height);
}

TEST(TopView, ShowsEventsReasonsAndKeysWhereTheyAreAskedFor) {
  auto state = live_state(3);
  state["now"]["because"] = "w2 computes 4.0 times slower than w0, and gets 8 of 243 samples";
  state["now"]["headline"] = "1.5 times the samples per second of equal batches (estimated)";
  const auto shown = [&](char key, const top_screen& screen) {
    std::string text;
    const auto lines = draw_top(state.dump(), screen, view_of(key).value()).value();
    for (const auto& line : lines)
      text += line + "\n";
    EXPECT_LE(std::ranges::count(text, '\n'), screen.height);
    return text;
  };
  const top_screen wide{.width = 100, .height = 30};
  EXPECT_THAT(shown('x', wide),
              HasSubstr("\nw2 computes 4.0 times slower than w0, and gets 8 of 243 samples.\n1.5 times"));
  EXPECT_THAT(shown('x', {.width = 40, .height = 30}), HasSubstr("\nw2 computes 4.0 times slower than w0,\nand gets"));
  EXPECT_THAT(shown('e', wide), HasSubstr("\nthe reward collapsed\n3.5 s  joined ada  all are here\n"));
  EXPECT_THAT(shown('h', wide), HasSubstr("x  why the batch sizes are as they are"));
  EXPECT_EQ(shown('?', wide), shown('h', wide));
  for (const char key : {'x', 'e', 'h'})
    shown(key, {.width = 20, .height = 4});
  EXPECT_FALSE(view_of('z'));
}

TEST(TopView, ColoursOnlyWhereItMay) {
  EXPECT_THAT(drawn(live_state(2)), Not(HasSubstr("\x1b")));
  EXPECT_THAT(drawn(live_state(2), {.colour = true}), HasSubstr("\x1b[31m"));
}

TEST(TopView, RefusesWhatIsNoStateAndBearsMissingFields) {
  for (const char* text : {"", "<html>", "[]", "{\"run\":{}}"})
    EXPECT_FALSE(draw_top(text, {})) << text;
  const auto empty = draw_top(R"({"run":{},"now":{}})", {});
  ASSERT_TRUE(empty);
  EXPECT_FALSE(empty->empty());
  const auto odd = draw_top(
      R"({"run":{"cluster":3},"now":{"window":"x"},"workers":{"name":["a\u001bb"],"batch":[null]},"warnings":[1],)"
      R"("events":{"a":1},"evaluations":7})",
      {});
  ASSERT_TRUE(odd);
  EXPECT_THAT(*odd, Contains(HasSubstr("a b ")));
}

} // namespace
} // namespace dynamix::node
