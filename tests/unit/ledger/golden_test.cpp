/// Two runs that release 0.1.0 wrote: `faulty` (three workers, ppo that learns, one worker killed and back) and `tree`
/// (four workers below two shards, goodput). Whoever changes a row, its JSON or the fold reads them as before.

#include "ledger/codec.hpp"
#include "ledger/explanation.hpp"
#include "ledger/file.hpp"
#include "ledger/replay.hpp"
#include "ledger/warnings.hpp"
#include "node/reports/run_records.hpp"
#include "storage/atomic_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dynamix::ledger {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GoldenRuns : public ::testing::TestWithParam<const char*> {
protected:
  static std::string path_of(const std::string& file) {
    return std::string(DYNAMIX_TEST_DIRECTORY) + "/golden/" + GetParam() + "/" + file;
  }
  static json recorded(const std::string& file) {
    std::string text;
    EXPECT_EQ(storage::read_file(path_of(file), 1U << 20, text), "");
    return json::parse(text);
  }
  static node::run_records read() {
    std::string error;
    auto records = node::read_run(node::run_directory(path_of("")), error);
    EXPECT_EQ(error, "");
    return records;
  }
  static std::vector<row> rows() {
    std::string error;
    auto all = read_file(path_of("windows.jsonl"), error);
    EXPECT_EQ(error, "");
    return all;
  }
  /// Fields are only added.
  static void expect_kept(const json& was, const json& is) {
    const auto before = was.flatten();
    const auto now = is.flatten();
    for (const auto& [place, value] : before.items())
      ASSERT_TRUE(now.contains(place) && now[place] == value) << place << " was " << value << " in " << was;
  }
  static bool faulty() { return GetParam() == std::string("faulty"); }
};

TEST_P(GoldenRuns, KeepEveryRow) {
  std::string text;
  ASSERT_EQ(storage::read_file(path_of("windows.jsonl"), 1U << 20, text), "");
  const auto all = rows();
  EXPECT_EQ(all.size(), static_cast<std::size_t>(std::ranges::count(text, '\n')));
  std::size_t begin = 0;
  for (const auto& row : all) {
    const auto line = text.substr(begin, text.find('\n', begin) - begin);
    begin += line.size() + 1;
    expect_kept(json::parse(line), json::parse(to_json_line(row)));
  }
}

TEST_P(GoldenRuns, ComeToTheSameFold) {
  const auto records = read();
  const auto& run = records.run;
  EXPECT_EQ(run.totals().windows, 9U);
  EXPECT_EQ(run.totals().decided_windows, 8U);
  EXPECT_EQ(run.totals().lives, 1U);
  EXPECT_EQ(run.totals().stale_reports, 0U);
  EXPECT_EQ(run.course().history().rows(), 9U);
  EXPECT_EQ(run.generation(), faulty() ? 3U : 1U);
  EXPECT_EQ(run.totals().steps_lost, faulty() ? 1U : 0U);
  EXPECT_EQ(run.shards().size(), faulty() ? 0U : 3U);
  EXPECT_TRUE(run.ended());
  EXPECT_EQ(run.ending(), faulty() ? "stopped" : "epochs completed");
  EXPECT_EQ(run.farewells().size(), run.workers().size());
  EXPECT_EQ(run.progress().window(), 9U);
  for (const auto& worker : run.workers())
    EXPECT_EQ(worker.state, worker_state::ended) << worker.name;
  EXPECT_THAT(find_warnings(run), IsEmpty());
}

TEST_P(GoldenRuns, ComeToTheSameSummary) {
  auto expected = recorded("summary.json");
  expected.erase("faults"); // the verdict of the command that broke it
  const auto summary = summarise(read(), {.warnings = {},
                                          .restarts = faulty() ? std::map<std::string, std::uint64_t>{{"ben", 1}}
                                                               : std::map<std::string, std::uint64_t>{},
                                          .given_up = {}});
  expect_kept(expected, json::parse(to_json(summary)));
}

TEST_P(GoldenRuns, AreExplainedTheSame) {
  std::string error;
  const auto explained = explain(rows(), 3, "", error);
  EXPECT_EQ(error, "");
  expect_kept(recorded("explain-3.json"), json::parse(to_json(explained)));
}

/// The release's policies saw other fields of a worker, so `faulty` cannot be decided again, and the replay says so.
TEST_P(GoldenRuns, AreDecidedTheSameAgainWhereThatCanBe) {
  const auto none = [](const std::string& digest, auto&) { return "no parameters " + digest; };
  const auto result = json::parse(to_json(replay(rows(), read().file, none)));
  auto expected = recorded("replay.json");
  EXPECT_LE(result["deviation"].get<double>(), 1e-4) << "another processor may round otherwise";
  expected["deviation"] = result["deviation"];
  EXPECT_EQ(result, expected);
}

INSTANTIATE_TEST_SUITE_P(Release, GoldenRuns, ::testing::Values("faulty", "tree"),
                         [](const auto& info) { return std::string(info.param); });

} // namespace
} // namespace dynamix::ledger
