#include "ledger/codec.hpp"
#include "ledger/file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/messages/filled.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

namespace dynamix::ledger {
namespace {

row a_window() {
  window window{.key = {.term = 3, .window = 17}, .generation = 2, .policy_version = 5, .gather_seconds = 0.25};
  worker worker;
  worker.report = {.host = "ada", .rank = 1, .window = 17, .batch = 96};
  worker.report.training.accuracy = 0.8125;
  worker.report.network.source = messages::signal_source::ebpf;
  worker.report.system.training_wait_ratio = 0.25;
  worker.report.gpu.throttled = true;
  worker.time = {.compute_seconds = 0.5, .barrier_seconds = 0.25};
  worker.reward.total = -0.5;
  worker.state = {0.5F, -1.25F};
  worker.probabilities = {0.25F, 0.75F};
  worker.action = 1;
  worker.reward.progress = -0.25;
  worker.decided_batch = 196;
  worker.proposed_batch = 512;
  worker.intervention = "slower than goodput";
  worker.reason = "action +100 (p=0.75) \"quoted\"\n";
  window.workers.push_back(worker);
  return {.at_seconds = 12.5, .entry = window};
}

TEST(Ledger, RowsSurviveTheRoundTrip) {
  const auto line = to_json_line(a_window());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto row = parse_line(line);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->at_seconds, 12.5);
  const auto& window = std::get<ledger::window>(row->entry);
  EXPECT_EQ(window.key, (messages::decision_key{3, 17}));
  ASSERT_EQ(window.workers.size(), 1U);
  EXPECT_EQ(window.workers[0].report.host, "ada");
  EXPECT_EQ(window.workers[0].report.training.accuracy, 0.8125);
  EXPECT_EQ(window.workers[0].report.network.source, messages::signal_source::ebpf);
  EXPECT_EQ(window.workers[0].report.system.training_wait_ratio, 0.25);
  EXPECT_TRUE(window.workers[0].report.gpu.throttled);
  EXPECT_EQ(window.workers[0].time.barrier_seconds, 0.25);
  EXPECT_EQ(window.workers[0].state, (std::vector<float>{0.5F, -1.25F}));
  EXPECT_EQ(window.workers[0].reward.progress, -0.25);
  EXPECT_EQ(window.workers[0].proposed_batch, 512U);
  EXPECT_EQ(window.workers[0].intervention, "slower than goodput");
  EXPECT_EQ(to_json_line(*row), line);
}

TEST(Ledger, EveryKindSurvivesTheRoundTrip) {
  const entry entries[] = {start{.cluster = "c", .workers = {"a", "b"}},
                           window{},
                           evaluation{{.epoch = 2, .test_accuracy = 0.5}},
                           policy_version{.version = 3},
                           generation{.generation = 2, .members = {"a"}, .source = "a", .steps_lost = 1},
                           event{event_kind::joined, "ada", "text"},
                           farewell{{.host = "ada", .steps = 9}},
                           shard{"dot", "north", 1, 32, shard_state::up},
                           deciding{.cluster_digest = "12ab", .parameters = "34cd"},
                           tree{.known = {.window = 4, .workers = {{.rank = 1, .ruled = 64}}},
                                .accounts = {{.arbitrator = 7, .ranks = {1}}},
                                .votes = {-1},
                                .untrained = "why"}};
  for (const auto& entry : entries) {
    const auto line = to_json_line({.at_seconds = 1, .entry = entry});
    const auto row = parse_line(line);
    ASSERT_TRUE(row) << line;
    EXPECT_EQ(row->entry.index(), entry.index());
    EXPECT_EQ(to_json_line(*row), line);
  }
}

TEST(Ledger, KeepsEveryFieldOfAMessage) {
  ledger::window window;
  window.workers.push_back({.report = messages::filled<messages::window_report>()});
  const auto said = messages::filled<messages::farewell>();
  const auto evaluated = messages::filled<messages::evaluation_report>();
  const auto read = [](const ledger::entry& entry) { return parse_line(to_json_line({.entry = entry}))->entry; };
  EXPECT_EQ(std::get<ledger::window>(read(window)).workers[0].report, window.workers[0].report);
  EXPECT_EQ(std::get<ledger::farewell>(read(ledger::farewell{said})).farewell, said);
  EXPECT_EQ(std::get<ledger::evaluation>(read(ledger::evaluation{evaluated})).report, evaluated);
}

TEST(Ledger, LinesOfEarlierVersionsAreRead) {
  const auto row = parse_line(R"({"kind":"window","at_seconds":2,"key":{"term":1,"window":4},"workers":[)"
                              R"({"report":{"host":"ada","batch":64},"reward":{"total":0.5},"action":2,)"
                              R"("assigned_batch":64,"decided_batch":89,"reason":"action +25"}]})");
  ASSERT_TRUE(row);
  const auto& worker = std::get<ledger::window>(row->entry).workers.at(0);
  EXPECT_EQ(worker.decided_batch, 89U);
  EXPECT_EQ(worker.proposed_batch, 0U);
  EXPECT_EQ(worker.intervention, "");
  EXPECT_EQ(worker.reward.total, 0.5);
  EXPECT_EQ(worker.time.compute_seconds, 0);
  EXPECT_EQ(worker.report.network.source, messages::signal_source::unspecified);
}

TEST(Ledger, TornAndForeignLinesAreLeftOut) {
  const auto line = to_json_line(a_window());
  for (std::size_t length = 0; length < line.size(); ++length)
    EXPECT_FALSE(parse_line(line.substr(0, length)));
  EXPECT_FALSE(parse_line(R"({"kind":"other"})"));
  EXPECT_FALSE(parse_line(R"({"kind":"window","workers":7})"));
}

TEST(Ledger, ALineWithAnImpossibleNumberIsLeftOut) {
  EXPECT_FALSE(parse_line(R"({"kind":"window","generation":-1})"));
  EXPECT_FALSE(parse_line(R"({"kind":"window","generation":1.5})"));
  EXPECT_FALSE(parse_line(R"({"kind":"shard","level":4294967296})"));
  EXPECT_FALSE(parse_line(R"({"kind":"window","at_seconds":"soon"})"));
  EXPECT_TRUE(parse_line(R"({"kind":"window","generation":18446744073709551615})"));
}

TEST(Ledger, WhatIsNotANumberStaysOne) {
  const auto line = to_json_line({.entry = policy_version{.value_loss = std::numeric_limits<double>::quiet_NaN()}});
  const auto row = parse_line(line);
  ASSERT_TRUE(row) << line;
  EXPECT_TRUE(std::isnan(std::get<ledger::policy_version>(row->entry).value_loss));
}

TEST(Ledger, AFileIsReadBackAndAppendedTo) {
  const temporary_directory directory;
  const auto path = directory.file("windows.jsonl");
  std::string error;
  for (int open = 0; open < 2; ++open) {
    auto file = open_file(path, error);
    ASSERT_TRUE(file) << error;
    file->append(a_window());
  }
  std::ofstream(path, std::ios::app) << R"({"kind":"event","ev)"; // killed in mid-write
  EXPECT_EQ(read_file(path, error).size(), 2U);
  EXPECT_TRUE(error.empty());
  std::filesystem::remove(path);
  EXPECT_TRUE(read_file(path, error).empty());
  EXPECT_NE(error.find("No such file"), std::string::npos);
}

TEST(Ledger, AWriteThatFailsLosesRowsNotTheRun) {
  std::string error;
  auto full = open_file("/dev/full", error);
  ASSERT_TRUE(full);
  full->append(a_window());
  full->append(a_window());
  EXPECT_FALSE(open_file("/no/such/directory/windows.jsonl", error));
  EXPECT_NE(error.find("cannot write /no/such/directory/windows.jsonl"), std::string::npos);
}

} // namespace
} // namespace dynamix::ledger
