/// Replicas of the arbitrator: the one that leads dies, hangs and comes back, and no decision is lost or made twice.

#include "ledger/file.hpp"
#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Replicas : public trial {
protected:
  void write_replicated_file(double epochs, const std::string& cluster = {}) {
    write_file({.slowdowns = {10, 10}, .epochs = epochs, .replicas = 3, .cluster = cluster});
  }

  /// The hosts that led so far.
  std::vector<std::string> leaders() const {
    std::string not_yet;
    std::vector<std::string> found;
    for (const auto& row : ledger::read_file(run().ledger(), not_yet))
      if (const auto* event = std::get_if<ledger::event>(&row.entry);
          event && event->event == ledger::event_kind::leader)
        found.push_back(event->host);
    return found;
  }
  bool wait_for_leaders(std::size_t count) const {
    return wait_until([&] { return leaders().size() >= count; });
  }
  /// Waits until a leader that came after these has decided.
  bool wait_for_decision_after(std::size_t windows_before) const { return wait_for_windows(windows_before + 3); }

  /// Every window is decided once, a later term's behind all of the earlier's, and training went through in one
  /// generation.
  void expect_one_line_of_decisions() const {
    std::vector<messages::decision_key> keys;
    for (const auto& window : windows())
      if (window.decided)
        keys.push_back(window.key);
    // A leader that hung between keeping a decision and writing its row writes it when it wakes.
    std::ranges::sort(keys);
    for (std::size_t i = 1; i < keys.size(); ++i)
      EXPECT_GT(keys[i].window, keys[i - 1].window) << "term " << keys[i].term << " after " << keys[i - 1].term;
    EXPECT_EQ(generations().size(), 1U) << "the workers trained on";
    const auto summary = nlohmann::json::parse(contents_of(run().summary()));
    EXPECT_EQ(summary["succeeded"], true);
    EXPECT_EQ(summary["decisions"]["lost"], 0);
    EXPECT_EQ(summary["decisions"]["duplicated"], 0);
    EXPECT_EQ(farewell_of("w0").samples, farewell_of("w1").samples);
    EXPECT_EQ(farewell_of("w0").parameter_checksum, farewell_of("w1").parameter_checksum);
  }

  /// Nobody else had to lead, and nobody was left behind.
  void expect_orderly_end(const ended_program& ended) const {
    EXPECT_EQ(ended.code, 0) << ended.output;
    EXPECT_EQ(leaders().size(), 1U);
    for (const char* hub : {"hub", "hub2", "hub3"}) {
      EXPECT_THAT(contents_of(run().log(hub)), HasSubstr("host_ended")) << hub;
      EXPECT_THAT(contents_of(run().log(hub)), Not(HasSubstr("actors_still_running"))) << hub;
    }
    expect_one_line_of_decisions();
  }
};

TEST_F(Replicas, EndTogetherWhenNothingHappens) {
  write_replicated_file(0.5, patient_cluster);
  expect_orderly_end(start_local().wait());
}

TEST_F(Replicas, AreRefusedWithoutKeys) {
  write_replicated_file(0.5);
  for (const auto& words : {std::vector<std::string>{"local", "--insecure"}, {"run", "--name", "hub"}}) {
    auto arguments = words;
    arguments.insert(arguments.end(), {"--cluster", file(), "--out", run().path()});
    const auto ended = start(arguments).wait();
    EXPECT_NE(ended.code, 0) << words[0];
    EXPECT_THAT(ended.output, HasSubstr("arbitrator.replicas needs keys")) << words[0];
  }
}

TEST_F(Replicas, GoOnWithTheNextWindowWhenTheLeaderDiesTwice) {
  write_replicated_file(2);
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  for (std::size_t kills = 1; kills <= 2; ++kills) {
    const auto before = windows().size();
    ASSERT_TRUE(local.signal_host(leaders().back(), SIGKILL)) << local.said();
    ASSERT_TRUE(wait_for_leaders(kills + 1)) << local.said();
    ASSERT_TRUE(wait_for_decision_after(before)) << local.said();
  }
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  expect_one_line_of_decisions();
}

TEST_F(Replicas, ReplaceALeaderThatHangsAndFollowWhenItWakes) {
  write_replicated_file(2);
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  const auto first = leaders().back();
  const auto before = windows().size();
  ASSERT_TRUE(local.signal_host(first, SIGSTOP)) << local.said();
  ASSERT_TRUE(wait_for_leaders(2)) << local.said();
  ASSERT_TRUE(wait_for_decision_after(before)) << local.said();
  ASSERT_TRUE(local.signal_host(first, SIGCONT)) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(contents_of(run().log(first)), HasSubstr("not_leading_any_more"));
  expect_one_line_of_decisions();
}

} // namespace
} // namespace dynamix::cluster_test
