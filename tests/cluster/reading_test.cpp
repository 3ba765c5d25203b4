/// What a run leaves to be read: its trace, its logs, and a ledger that can be decided again.

#include "ledger/codec.hpp"
#include "storage/atomic_file.hpp"
#include "tests/cluster/trial.hpp"
#include "tests/unit/node/trace_format.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>
#include <sstream>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The last worker, ten times as slow for two of every four seconds.
const std::string often_slowed = [] {
  std::string text;
  for (int second = 1; second < 40; second += 2)
    text += "[[host.emulate]]\nat_seconds = " + std::to_string(second) +
            "\ncompute_slowdown = " + (second % 4 == 1 ? "20\n" : "2\n");
  return text;
}();

class RunThatIsRead : public trial {};

TEST_F(RunThatIsRead, IsTracedOnOneClockAndDecidesTheSameAgain) {
  write_file({.slowdowns = {1, 2},
              .epochs = 4,
              .more = often_slowed + "[ppo]\nhorizon = 4\n",
              .window_steps = 5,
              .cluster = patient_cluster});
  const auto ended =
      start({"local", "--cluster", file(), "--out", run().path(), "--trace", "--log-json", "--set", "cluster.seed=23"})
          .wait();
  ASSERT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(contents_of(run().cluster_file()), HasSubstr("\nseed = 23\n"));
  EXPECT_EQ(rows<ledger::start>().at(0).seed, 23U) << "the hosts read the file with the changes";
  EXPECT_THAT(ended.output, HasSubstr("events of 2 hosts"));

  const auto again = end_of({"explain", "--run", run().path(), "--replay"});
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("The same: "));
  const auto summary = nlohmann::json::parse(contents_of(run().summary()));
  EXPECT_EQ(summary["decisions"]["lost"], 0);
  EXPECT_EQ(farewell_of("w1").parameter_checksum, farewell_of("w0").parameter_checksum);

  const auto trace = nlohmann::json::parse(contents_of(run().trace()));
  EXPECT_THAT(node::testing::find_violations(trace), IsEmpty());
  EXPECT_EQ(trace["otherData"]["clocks"]["w0"]["bound_seconds"], 0) << "one machine has one clock";
  std::map<std::string, double> arrived; // decisions on this window, the earliest
  std::map<std::string, double> decided;
  std::set<std::string> categories;
  for (const auto& event : trace["traceEvents"]) {
    const auto category = event.value("cat", "");
    categories.insert(category);
    const auto words = event["name"].get<std::string>();
    if (category == "decide")
      decided[words.substr(words.find(' ') + 1)] = event["ts"].get<double>() + event["dur"].get<double>();
    if (category == "decision") {
      std::istringstream text(words);
      std::string number;
      text >> number >> number;
      const auto place = arrived.try_emplace(number, event["ts"].get<double>()).first;
      place->second = std::min(place->second, event["ts"].get<double>());
    }
  }
  EXPECT_GT(arrived.size(), 5U);
  for (const auto& [window, at] : arrived)
    EXPECT_GE(at, decided.at(window) - 1) << "window " << window << " in microseconds";
  for (const char* wanted : {"window", "step", "data", "compute", "collective", "gather", "decide", "decision"})
    EXPECT_TRUE(categories.contains(wanted)) << wanted;

  EXPECT_THAT(contents_of(run().page()), HasSubstr("id=\"inlined\""));
  std::istringstream log(contents_of(run().log("w0")));
  std::size_t lines = 0;
  for (std::string line; std::getline(log, line); ++lines) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(object.is_object()) << line;
    EXPECT_EQ(object["host"], "w0");
  }
  EXPECT_GT(lines, 3U);
}

/// Nothing can be written below it any more.
void put_a_file_in_place_of(const std::string& directory) {
  std::error_code ignored; // it may not be there yet
  std::filesystem::rename(directory, directory + ".before", ignored);
  ASSERT_EQ(storage::write_file_atomically(directory, std::string("no directory")), "");
}

TEST_F(RunThatIsRead, WarnsOfCheckpointsThatCouldNotBeWritten) {
  write_file({.epochs = 4, .training = "checkpoint_every_epochs = 1\n", .cluster = patient_cluster});
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(1));
  put_a_file_in_place_of(run().checkpoints());
  const auto ended = local.wait();
  std::vector<ledger::event> warnings;
  for (const auto& event : rows<ledger::event>())
    if (event.event == ledger::event_kind::warning)
      warnings.push_back(event);
  ASSERT_EQ(warnings.size(), 1U) << "once, while it stays so\n" << ended.output;
  EXPECT_EQ(warnings[0].host, "w0");
  EXPECT_THAT(warnings[0].text, HasSubstr("no checkpoint could be written at step "));
  const auto told = "w0: " + warnings[0].text;
  EXPECT_THAT(end_of({"report", "--run", run().path()}).output, HasSubstr(told));
  EXPECT_THAT(contents_of(run().summary()), HasSubstr("w0: no checkpoint could be written"));
  EXPECT_THAT(contents_of(run().page()), HasSubstr("w0: no checkpoint could be written"));
}

TEST_F(RunThatIsRead, IsAFailureForAHostWhoseEndCouldNotBeWritten) {
  write_file({.cluster = patient_cluster});
  auto hub = start_host("hub");
  std::vector<program> workers;
  for (const auto* host : {"w0", "w1"})
    workers.push_back(start_host(host));
  ASSERT_TRUE(wait_for_windows(1));
  put_a_file_in_place_of(run().path() + "/workers");
  for (auto& worker : workers) {
    const auto ended = worker.wait();
    EXPECT_EQ(ended.code, 1) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("farewell_not_written error="));
  }
  hub.wait();
}

TEST_F(RunThatIsRead, SaysThatItsReportCouldNotBePrinted) {
  ASSERT_EQ(run().create(), "");
  ASSERT_EQ(node::write_cluster_copy(run(), node::testing::pair_file()), "");
  std::string lines;
  for (const auto& row : node::testing::sample_rows())
    lines += ledger::to_json_line(row) + "\n";
  ASSERT_EQ(storage::write_file_atomically(run().ledger(), lines), "");
  for (const std::string command : {"report", "explain", "explain --all", "ledger"}) {
    const auto ended =
        start({"-c", "exec \"$0\" " + command + " --run \"$1\" > /dev/full", DYNAMIX_NODE_PROGRAM, run().path()},
              "/bin/sh")
            .wait();
    EXPECT_EQ(ended.code, 1) << command;
    EXPECT_THAT(ended.output, HasSubstr("dynamix-node: error: cannot write the output")) << command;
  }
}

} // namespace
} // namespace dynamix::cluster_test
