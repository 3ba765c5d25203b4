#include "ledger/codec.hpp"
#include "node/reports/trace.hpp"
#include "telemetry/trace_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"
#include "tests/unit/node/trace_format.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace dynamix::node {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A host whose clock is `offset` ahead, with these delays on the way to the arbitrator and back.
struct distant_host {
  double offset;
  double up_seconds;
  double down_seconds;
};

constexpr double origin = 1000;

std::vector<ledger::row> ledger_of(std::uint64_t windows) {
  auto start = start_row();
  start.origin_seconds = origin;
  start.clock = "boot a";
  std::vector<ledger::row> rows = {{0, start}};
  for (std::uint64_t window = 1; window <= windows; ++window) {
    ledger::window row{.key = {2, window}, .generation = 1, .gather_seconds = 0.001, .decide_seconds = 0.002};
    row.workers = {worker(report(0, window, 64), {}, 64)};
    rows.push_back({static_cast<double>(window) + 0.002, row});
  }
  return rows;
}

host_moments moments_of(const distant_host& host, std::uint64_t windows) {
  host_moments moments{.clock = "boot b", .reports = {}, .decisions = {}};
  for (std::uint64_t window = 1; window <= windows; ++window) {
    const double jitter = 0.001 * static_cast<double>(window % 5);
    const double began = origin + static_cast<double>(window);
    moments.reports[{1, window}] = began - host.up_seconds - jitter + host.offset;
    moments.decisions[{2, window}] = began + 0.002 + host.down_seconds + jitter + host.offset;
  }
  return moments;
}

TEST(TraceClocks, BoundsTheOffsetByWhatCameBeforeAndAfter) {
  for (const auto& host : {distant_host{5, 0.01, 0.01}, distant_host{-300, 0.001, 0.04}, distant_host{0, 0, 0.1}}) {
    const auto found = offset_of(moments_of(host, 40), ledger_of(40));
    ASSERT_TRUE(found.known);
    EXPECT_LE(std::abs(found.seconds - host.offset), found.bound_seconds + 1e-9) << "sound, however unequal the ways";
    EXPECT_NEAR(found.bound_seconds, (host.up_seconds + host.down_seconds) / 2, 1e-9);
  }
}

TEST(TraceClocks, IsExactOnOneMachineAndSaysWhenItKnowsNothing) {
  auto moments = moments_of({7, 0.1, 0.1}, 3);
  moments.clock = "boot a";
  const auto same = offset_of(moments, ledger_of(3));
  EXPECT_TRUE(same.known);
  EXPECT_EQ(same.seconds, 0);
  EXPECT_EQ(same.bound_seconds, 0);
  EXPECT_FALSE(offset_of({.clock = "boot b", .reports = {}, .decisions = {}}, ledger_of(3)).known);
  EXPECT_FALSE(offset_of(moments_of({0, 0, 0}, 3), {}).known);
}

class TraceTest : public ::testing::Test {
protected:
  TraceTest() {
    std::ofstream ledger(directory_.path() + "/windows.jsonl");
    for (const auto& row : ledger_of(3))
      ledger << ledger::to_json_line(row) << "\n";
    ledger << ledger::to_json_line({2.5, ledger::event{ledger::event_kind::lost, "ada", "it \"has\" gone"}}) << "\n"
           << ledger::to_json_line({2.6, ledger::generation{.generation = 2, .members = {"ada"}}}) << "\n"
           << ledger::to_json_line({2.7, ledger::evaluation{{.test_accuracy = 0.5}}}) << "\n";
  }
  /// Two steps of one window, with overlapping collectives.
  void write_host(const std::string& host, std::uint64_t bytes_max = 1U << 20) {
    std::string problem;
    const auto file =
        telemetry::trace_file::open(directory_.path() + "/traces/" + host + ".jsonl", host, problem, bytes_max);
    ASSERT_NE(file, nullptr) << problem;
    for (int step = 1; step <= 2; ++step) {
      const double begin = origin + step;
      file->span("step", "step " + std::to_string(step), begin, begin + 0.5,
                 R"("batch":64,"data":0.01,"compute":0.3,"blocked":0.1)");
      file->span("collective", "all-reduce", begin + 0.1, begin + 0.35, R"("bytes":1000)");
      file->span("collective", "all-reduce", begin + 0.2, begin + 0.4, R"("bytes":1000)");
    }
    file->span("window", "window 1", origin + 1, origin + 2.5, R"("batch":64)");
    file->moment("report", 1, 1);
    file->moment("decision", 2, 1);
  }
  json joined() {
    outcome_ = join_traces(directory_.path(), directory_.path() + "/trace.json");
    EXPECT_EQ(outcome_.problem, "");
    std::ifstream file(directory_.path() + "/trace.json");
    return json::parse(file);
  }
  static std::size_t count(const json& trace, const std::string& member, const std::string& value) {
    return static_cast<std::size_t>(std::ranges::count_if(
        trace["traceEvents"], [&](const json& event) { return event.value(member, "") == value; }));
  }

  const temporary_directory directory_;
  trace_outcome outcome_;
};

TEST_F(TraceTest, IsValidAndHoldsWindowsStepsCollectivesAndDecisionsOfAllHosts) {
  write_host("ada");
  write_host("ben");
  const auto trace = joined();
  EXPECT_THAT(find_violations(trace), IsEmpty());
  EXPECT_EQ(count(trace, "cat", "window"), 2U);
  EXPECT_EQ(count(trace, "cat", "step"), 4U);
  EXPECT_EQ(count(trace, "cat", "collective"), 16U) << "a beginning and an end each";
  EXPECT_EQ(count(trace, "cat", "decide"), 3U);
  EXPECT_EQ(count(trace, "cat", "decision"), 2U);
  EXPECT_EQ(count(trace, "name", "lost ada"), 1U);
  EXPECT_EQ(count(trace, "name", "generation 2"), 1U);
  EXPECT_EQ(outcome_.events, trace["traceEvents"].size());
  EXPECT_THAT(trace["otherData"]["clocks"]["ada"].dump(), HasSubstr("bound_seconds"));
}

TEST_F(TraceTest, LetsWindowsBeGatheredAtTheSameTime) {
  std::ofstream ledger(directory_.path() + "/windows.jsonl", std::ios::app);
  for (std::uint64_t window = 4; window <= 5; ++window) {
    ledger::window row{.key = {2, window}, .generation = 1, .gather_seconds = 0.05};
    row.workers = {worker(report(0, window, 64), {}, 64)};
    ledger << ledger::to_json_line({3 + 0.01 * static_cast<double>(window), row}) << "\n";
  }
  ledger.close();
  write_host("ada");
  const auto trace = joined();
  EXPECT_THAT(find_violations(trace), IsEmpty());
  EXPECT_EQ(count(trace, "cat", "gather"), 10U) << "a beginning and an end each";
}

TEST_F(TraceTest, BearsTornLinesAndAHostThatWasStartedAgain) {
  write_host("ada");
  std::ofstream(directory_.path() + "/traces/ada.jsonl", std::ios::app) << R"({"kind":"step","name":"st)";
  write_host("ada");
  const auto trace = joined();
  EXPECT_EQ(count(trace, "cat", "window"), 2U);
  EXPECT_EQ(count(trace, "cat", "step"), 4U);
}

TEST_F(TraceTest, LeavesFineEventsOutWhereThereIsNoRoom) {
  write_host("ada");
  const auto outcome = join_traces(directory_.path(), directory_.path() + "/trace.json", 100);
  EXPECT_EQ(outcome.left_out, 6U);
  std::ifstream file(directory_.path() + "/trace.json");
  const auto trace = json::parse(file);
  EXPECT_THAT(find_violations(trace), IsEmpty());
  EXPECT_EQ(count(trace, "cat", "window"), 1U);
  EXPECT_EQ(count(trace, "cat", "step"), 0U);
  EXPECT_THAT(to_text(outcome, "x"), HasSubstr("6 steps and collectives were left out for lack of room"));
}

TEST_F(TraceTest, AHostStopsWhereItsFileIsFull) {
  write_host("ada", 300);
  EXPECT_LT(std::filesystem::file_size(directory_.path() + "/traces/ada.jsonl"), 400U);
  EXPECT_THAT(find_violations(joined()), IsEmpty());
}

TEST_F(TraceTest, SaysWhatIsMissing) {
  EXPECT_THAT(join_traces(directory_.path(), directory_.path() + "/trace.json").problem, HasSubstr("--trace"));
  write_host("ada");
  EXPECT_THAT(join_traces(directory_.path(), directory_.path() + "/no/trace.json").problem, HasSubstr("cannot write"));
}

TEST(TraceFormat, FindsWhatPerfettoWouldStumbleOver) {
  const auto violations_of = [](const char* event) {
    return find_violations(json{{"traceEvents", {json::parse(event)}}}).size();
  };
  EXPECT_EQ(violations_of(R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":2})"), 0U);
  EXPECT_EQ(violations_of(R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":1})"), 1U);
  EXPECT_EQ(violations_of(R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":-2})"), 1U);
  EXPECT_EQ(violations_of(R"({"ph":"Q","name":"a","pid":1,"tid":1,"ts":1})"), 1U);
  EXPECT_EQ(violations_of(R"({"ph":"i","s":"x","name":"a","pid":1,"tid":1,"ts":1})"), 1U);
  EXPECT_EQ(violations_of(R"({"ph":"C","name":"a","pid":1,"tid":1,"ts":1,"args":{"x":"1"}})"), 1U);
  EXPECT_EQ(violations_of(R"({"ph":"b","cat":"c","id":"1","name":"a","pid":1,"tid":1,"ts":1})"), 1U);
  const auto overlapping = json::parse(R"({"traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":5},
                                                          {"ph":"X","name":"b","pid":1,"tid":1,"ts":3,"dur":5}]})");
  EXPECT_EQ(find_violations(overlapping).size(), 1U);
}

} // namespace
} // namespace dynamix::node
