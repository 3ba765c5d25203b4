#include "dashboard/feed.hpp"
#include "ledger/codec.hpp"
#include "ledger/file.hpp"
#include "ledger/segments.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/ledger/rows.hpp"
#include "tests/unit/node/sample_run.hpp"
#include "tests/wait_until.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace dynamix::dashboard {
namespace {

using namespace ledger::testing;
using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds patience{20'000};

class Feed : public ::testing::Test {
protected:
  void append(const ledger::row& row) { append_text(ledger::to_json_line(row) + "\n"); }
  void append_text(const std::string& text) { std::ofstream(path(), std::ios::app | std::ios::binary) << text; }
  std::string path() const { return directory_.path() + "/windows.jsonl"; }

  static json state_of(const feed& from) { return json::parse(from.state(true)); }
  /// Waits until the whole file is read.
  json settled(const feed& from) const {
    EXPECT_TRUE(wait_until([&] { return state_of(from)["position"] == std::filesystem::file_size(path()); }));
    return state_of(from);
  }
  static json data_of(const feed::frame& frame) { return json::parse(frame->substr(frame->find("data: ") + 6)); }

  const temporary_directory directory_;
  const feed_limits quick_{.look_interval = milliseconds(5)};
};

TEST_F(Feed, WarnsOfWhatNoLedgerSays) {
  append(start_row());
  feed from(small_cluster(), path(), quick_, [] { return std::vector<std::string>{"a certificate ends"}; });
  EXPECT_EQ(settled(from)["warnings"][0], "a certificate ends");
  const std::uint64_t begin = std::filesystem::file_size(path());
  from.subscribe();
  append(window_row(1));
  const auto news = from.read_behind(begin, patience);
  ASSERT_EQ(news.frames.size(), 1U);
  EXPECT_EQ(data_of(news.frames[0])["warnings"][0], "a certificate ends");
}

/// The page's "since" jumped.
TEST_F(Feed, KnowsWhenTheRunBeganAlsoBehindAnotherArbitrator) {
  append(start_row());
  append(window_row(1));
  auto again = start_row();
  std::get<ledger::start>(again.entry).started_at = "2026-01-02T09:00:00Z";
  append(again);
  const feed from(small_cluster(), path(), quick_);
  EXPECT_EQ(settled(from)["run"]["started_at"], "2026-01-02T03:04:05Z");
}

TEST_F(Feed, HandsOutNoMoreThanIsAskedFor) {
  append(start_row());
  feed from(small_cluster(), path(), quick_);
  const auto begin = settled(from)["position"];
  from.subscribe();
  append(window_row(1));
  append(window_row(2));
  settled(from);
  const auto first = from.read_behind(begin, patience, 1);
  ASSERT_EQ(first.frames.size(), 1U);
  const auto second = from.read_behind(first.position, patience, 1);
  ASSERT_EQ(second.frames.size(), 1U);
  EXPECT_EQ(data_of(first.frames[0])["now"]["window"], 1);
  EXPECT_EQ(data_of(second.frames[0])["now"]["window"], 2);
  EXPECT_EQ(second.position, std::filesystem::file_size(path()));
}

TEST_F(Feed, ReadsThePastAndThenTheNews) {
  append(start_row());
  append(window_row(1));
  feed from(small_cluster(), path(), quick_);
  auto state = settled(from);
  EXPECT_EQ(state["now"]["windows"], 1);
  EXPECT_EQ(state["remaining_bytes"], 0);
  from.subscribe();
  append(window_row(2));
  const auto news = from.read_behind(state["position"], patience);
  ASSERT_EQ(news.frames.size(), 1U);
  EXPECT_FALSE(news.gap);
  const auto update = data_of(news.frames[0]);
  EXPECT_EQ(update["kind"], "window");
  EXPECT_EQ(update["now"]["window"], 2);
  EXPECT_EQ(update["workers"]["batch"], json({64, 65}));
  EXPECT_EQ(news.position, std::filesystem::file_size(path()));
  EXPECT_TRUE(news.frames[0]->starts_with("id: " + std::to_string(news.position) + "\ndata: {"));
  EXPECT_EQ(std::ranges::count(*news.frames[0], '\n'), 3) << "an id, one line of data, and the end";
}

TEST_F(Feed, WaitsForALedgerThatIsNotThereYet) {
  feed from(small_cluster(), path(), quick_);
  EXPECT_EQ(state_of(from)["now"]["phase"], "waiting");
  append(start_row());
  append(window_row(1));
  EXPECT_EQ(settled(from)["now"]["phase"], "training");
}

TEST_F(Feed, ALineThatIsBeingWrittenWaitsForItsEnd) {
  append(start_row());
  const auto line = ledger::to_json_line(window_row(1));
  append_text(line.substr(0, 100));
  feed from(small_cluster(), path(), quick_);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(state_of(from)["now"]["windows"], 0);
  append_text(line.substr(100) + "\n");
  EXPECT_EQ(settled(from)["now"]["windows"], 1);
}

TEST_F(Feed, TornAndForeignLinesAreLeftOut) {
  append(start_row());
  append_text("{\"kind\":\"window\",\"at_sec\nnot json\n\n");
  append(window_row(1));
  feed from(small_cluster(), path(), quick_);
  EXPECT_EQ(settled(from)["now"]["windows"], 1);
}

TEST_F(Feed, AClientThatComesBackGoesOnWhereItWas) {
  append(start_row());
  feed from(small_cluster(), path(), quick_);
  const std::uint64_t before = settled(from)["position"];
  from.subscribe();
  append(window_row(1));
  append(window_row(2));
  settled(from);
  EXPECT_EQ(from.read_behind(before, patience).frames.size(), 2U);
  EXPECT_EQ(from.read_behind(from.read_behind(before, patience).position, milliseconds(0)).frames.size(), 0U);
}

TEST_F(Feed, WhatIsNotKeptIsAGap) {
  append(start_row());
  auto few = quick_;
  few.events = 2;
  feed from(small_cluster(), path(), few);
  const std::uint64_t before = settled(from)["position"];
  from.subscribe();
  for (std::uint64_t i = 1; i <= 5; ++i)
    append(window_row(i));
  const std::uint64_t now = settled(from)["position"];
  EXPECT_TRUE(from.read_behind(before, patience).gap);
  EXPECT_TRUE(from.read_behind(now + 1, patience).gap) << "a position of another ledger";
  EXPECT_FALSE(from.read_behind(now, milliseconds(0)).gap);
}

TEST_F(Feed, ALedgerThatBeginsAnewIsReadAnew) {
  append(start_row());
  append(window_row(1));
  append(window_row(2));
  feed from(small_cluster(), path(), quick_);
  EXPECT_EQ(settled(from)["now"]["windows"], 2);
  std::filesystem::remove(path());
  append(start_row());
  append(window_row(1));
  EXPECT_TRUE(wait_until([&] { return state_of(from)["now"]["windows"] == 1; }));
}

TEST_F(Feed, ARotatedLedgerGoesOn) {
  std::string error;
  auto file = ledger::open_file(path(), error, 1U << 20);
  file->append(start_row());
  feed from(small_cluster(), path(), quick_);
  from.subscribe();
  for (std::uint64_t i = 1; i <= 200; ++i)
    file->append(window_row(i));
  file.reset();
  const auto segments = ledger::segments_of(path());
  ASSERT_GE(segments.size(), 2U);
  const auto end = ledger::newest_part_begin(segments) + std::filesystem::file_size(path());
  const auto settled_at_end = [end](const feed& of) {
    EXPECT_TRUE(wait_until([&] { return state_of(of)["position"] == end; }));
    return state_of(of);
  };
  EXPECT_EQ(settled_at_end(from)["now"]["windows"], 200) << "each once";
  const feed late(small_cluster(), path(), quick_);
  EXPECT_EQ(settled_at_end(late)["now"]["windows"], 200);
  auto short_past = quick_;
  short_past.past_bytes = 10;
  const feed shorter(small_cluster(), path(), short_past);
  EXPECT_TRUE(wait_until([&] { return state_of(shorter)["skipped_bytes"] != 0; })); // and no row behind it
  const auto state = state_of(shorter);
  EXPECT_EQ(state["run"]["seed"], 7);
  EXPECT_LE(state["now"]["windows"], 1);
  EXPECT_EQ(state["skipped_bytes"].get<std::uint64_t>(), end - 10 - ledger::to_json_line(start_row()).size() - 1);

  std::filesystem::resize_file(segments[0].path, segments[0].file_bytes / 2);
  const feed damaged(small_cluster(), path(), quick_);
  EXPECT_TRUE(wait_until([&] { return !state_of(damaged)["warnings"].empty(); }));
  const auto with = state_of(damaged);
  EXPECT_LT(with["now"]["windows"], 200);
  EXPECT_THAT(with["warnings"][0].get<std::string>(), ::testing::HasSubstr("is damaged: after byte "));
}

TEST_F(Feed, OfALongLedgerTheBeginningOfTheRunAndTheEndAreRead) {
  append(start_row());
  for (std::uint64_t i = 1; i <= 50; ++i)
    append(window_row(i));
  auto short_past = quick_;
  short_past.past_bytes = 10 * ledger::to_json_line(window_row(50)).size();
  feed from(small_cluster(), path(), short_past);
  const auto state = settled(from);
  EXPECT_EQ(state["run"]["seed"], 7);
  EXPECT_EQ(state["now"]["window"], 50);
  EXPECT_GE(state["now"]["windows"], 9);
  EXPECT_LE(state["now"]["windows"], 10);
  EXPECT_GT(state["skipped_bytes"], 0);
}

TEST_F(Feed, AnEndlessLineIsPassedOver) {
  append(start_row());
  auto limited = quick_;
  limited.line_bytes = 20'000;
  append_text(std::string(100'000, 'x') + "\n");
  append(window_row(1));
  feed from(small_cluster(), path(), limited);
  EXPECT_EQ(settled(from)["now"]["windows"], 1);
}

TEST_F(Feed, StopsAtOnce) {
  feed from(small_cluster(), path(), quick_);
  std::thread waiting([&] { EXPECT_TRUE(from.read_behind(0, patience).stopped); });
  from.stop();
  waiting.join();
}

TEST_F(Feed, TheStateHoldsWhatThePageShows) {
  append(start_row());
  for (std::uint64_t i = 1; i <= 3; ++i)
    append(window_row(i));
  append({.entry = ledger::evaluation{{.step = 30, .epoch = 1, .test_accuracy = 0.75}}});
  append({.entry = ledger::policy_version{.version = 5, .entropy = 0.5, .approximate_kl = 0.01}});
  append(event_row(ledger::event_kind::warning, "w1", "a \"quoted\" text\n"));
  feed from(small_cluster(), path(), quick_);
  const auto state = settled(from);
  EXPECT_EQ(state["run"]["cluster"], "small");
  EXPECT_EQ(state["run"]["planned_samples"], 18000);
  EXPECT_EQ(state["history"]["elapsed_seconds"], json({1, 2, 3}));
  EXPECT_EQ(state["worker_history"]["batch"], json({{64, 64, 64}, {65, 65, 65}}));
  EXPECT_EQ(state["workers"]["name"], json({"w0", "w1"}));
  EXPECT_EQ(state["workers"]["parts"]["exchange"], json({0.03, 0.03}));
  EXPECT_EQ(state["evaluations"][0]["test_accuracy"], 0.75);
  EXPECT_EQ(state["policy_history"]["approximate_kl"][0], 0.01);
  EXPECT_EQ(state["warnings"][0], "w1: a \"quoted\" text ") << "a warning is one line that can be printed";
  EXPECT_EQ(state["now"]["noise_scale"], nullptr) << "not known is not a number";
  const auto now_only = json::parse(from.state(false));
  EXPECT_FALSE(now_only.contains("history"));
  EXPECT_EQ(now_only["evaluations"].size(), 1U);
}

TEST_F(Feed, TellsTheWorkersMeansOnceTheRunHasEnded) {
  append(start_row());
  append(window_row(1));
  append(window_row(2));
  feed from(small_cluster(), path(), quick_);
  EXPECT_TRUE(settled(from)["per_worker"].empty());
  for (const std::uint32_t rank : {0U, 1U}) {
    ledger::farewell said;
    said.farewell.host = "w" + std::to_string(rank);
    said.farewell.rank = rank;
    said.farewell.succeeded = true;
    said.farewell.steps = 20;
    append({.entry = said});
  }
  const auto means = settled(from)["per_worker"];
  ASSERT_EQ(means.size(), 2U);
  EXPECT_EQ(means[1]["host"], "w1");
  EXPECT_EQ(means[1]["mean_batch"], 65);
  EXPECT_EQ(means[1]["samples"], 1300);
  EXPECT_NEAR(means[1]["share"].get<double>(), 1300.0 / 2580, 1e-5);
}

TEST_F(Feed, TellsNoTimeWhereNoStepWasLookedAt) {
  append(start_row());
  auto row = window_row(1);
  auto& training = std::get<ledger::window>(row.entry).workers[1].report.training;
  training.untimed_steps = training.steps;
  training.iteration_seconds = training.compute_seconds = training.exchange_seconds = training.data_seconds = 0;
  append(row);
  ledger::farewell said;
  said.farewell.host = "w1";
  said.farewell.rank = 1;
  said.farewell.steps = 10;
  append({.entry = said});
  said.farewell.host = "w0";
  said.farewell.rank = 0;
  append({.entry = said});
  feed from(small_cluster(), path(), quick_);
  const auto state = settled(from);
  EXPECT_EQ(state["workers"]["step_seconds"], json::parse("[0.1, null]"));
  EXPECT_EQ(state["workers"]["parts"]["compute"], json::parse("[0.06, null]"));
  EXPECT_EQ(state["workers"]["samples_per_second"][1], nullptr);
  EXPECT_EQ(state["now"]["step_seconds"], 0.1);
  EXPECT_EQ(state["per_worker"][0]["step_seconds"], 0.1);
  EXPECT_EQ(state["per_worker"][1]["step_seconds"], nullptr);
  EXPECT_EQ(state["per_worker"][1]["samples"], 650);
}

TEST_F(Feed, ExplainsTheWindowAtATimeOfTheChart) {
  append(start_row());
  for (std::uint64_t window = 1; window <= 12; ++window)
    append(window_row(window));
  feed from(small_cluster(), path(), quick_);
  settled(from);
  const auto asked = [&](const explanation_question& question) {
    std::string told;
    EXPECT_TRUE(wait_until([&] { return !(told = from.explain(question)).empty(); }));
    return json::parse(told);
  };
  const auto all = asked({.elapsed_seconds = 2.5});
  EXPECT_EQ(all["window"], 3) << "each window ends at its number of seconds";
  EXPECT_THAT(all["text"].get<std::string>(), ::testing::AllOf(::testing::HasSubstr("w0"), ::testing::HasSubstr("w1")));
  EXPECT_EQ(asked({.elapsed_seconds = 99})["window"], 12) << "behind the end is the newest";
  EXPECT_THAT(asked({.elapsed_seconds = 1, .worker = "nobody"})["problem"].get<std::string>(),
              ::testing::HasSubstr("no worker \"nobody\""));
}

} // namespace
} // namespace dynamix::dashboard
