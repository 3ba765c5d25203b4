/// What a run leaves to be read: its trace, its logs, and a ledger that can be decided again.

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

} // namespace
} // namespace dynamix::cluster_test
