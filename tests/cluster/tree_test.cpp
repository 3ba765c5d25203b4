/// A tree of arbitrators over real processes: shards decide, the root guides; a shard's host dies and comes back.

#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <span>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;

const std::string two_shards = "policy = \"goodput\"\ntopology = \"tree\"\nfanout = 2"; // of four workers

class ArbitratorTree : public trial {
protected:
  /// Two shards, slow enough that most of the training is left after the first windows.
  void write_slow_file(double epochs) {
    write_file({.slowdowns = {10, 10, 10, 10}, .epochs = epochs, .arbitrator = two_shards});
  }
  bool wait_for_shard(const std::string& name, ledger::shard_state state) const {
    return wait_until([&] {
      const auto shards = rows<ledger::shard>();
      return std::ranges::any_of(shards, [&](const auto& row) { return row.name == name && row.state == state; });
    });
  }
  /// The first ones, up to where a shard's part of one reached the root too late, or not at all.
  std::vector<ledger::window> windows_in_time() const {
    auto all = windows();
    const auto by = rows<ledger::tree>();
    std::size_t count = 0;
    const auto whole = [&] {
      const auto& parts = by[count].accounts;
      return parts.size() == 2 && std::ranges::all_of(parts, [&](const auto& part) {
               return part.decided == count + 1 && part.ranks.size() == 2;
             });
    };
    while (count < std::min(all.size(), by.size()) && whole())
      ++count;
    all.resize(count);
    return all;
  }
};

TEST_F(ArbitratorTree, TrainsToTheEndAndMovesBatchesToTheFastHosts) {
  write_file({.slowdowns = {2, 6, 2, 6}, .epochs = 3, .arbitrator = two_shards, .cluster = patient_cluster});
  auto local = start_local();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("hub: root of 2 arbitrators"));
  EXPECT_THAT(ended.output, HasSubstr("w2: shard of 2 workers, ranks 2 to 3"));
  const auto all = windows();
  ASSERT_GT(all.size(), 10U);
  for (const auto& window : all) {
    EXPECT_EQ(window.workers.size(), 4U) << "window " << window.key.window;
    std::set<std::uint64_t> keys;
    for (const auto& worker : window.workers)
      if (!worker.stale && worker.report.decision.window > 0)
        keys.insert(worker.report.decision.window);
    EXPECT_LE(keys.size(), 1U) << "nobody applies half of a window";
  }
  std::array<std::uint64_t, 4> samples{}; // of the second half: single windows of a busy machine prove nothing
  for (const auto& window : std::span(all).subspan(all.size() / 2))
    for (const auto& worker : window.workers)
      samples.at(worker.report.rank) += worker.report.batch;
  EXPECT_GT(samples[0] + samples[2], samples[1] + samples[3]);
  for (const char* worker : {"w0", "w1", "w2", "w3"}) {
    EXPECT_EQ(farewell_of(worker).samples, 18000U);
    EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum);
    EXPECT_EQ(farewell_of(worker).decisions.duplicated, 0U);
    EXPECT_GT(farewell_of(worker).decisions.applied, 5U);
  }
}

/// On a busy machine a part may come too late, and what its shard decides from then on cannot be made again.
TEST_F(ArbitratorTree, LeavesALedgerFromWhichEveryShardsDecisionsFollow) {
  write_file({.slowdowns = {10, 10, 10, 10}, .epochs = 2, .arbitrator = two_shards, .cluster = patient_cluster});
  auto local = start_local();
  ASSERT_EQ(local.wait().code, 0) << local.said();
  const auto in_time = windows_in_time();
  const auto decided = std::ranges::count(in_time, true, &ledger::window::decided);
  const auto again = end_of({"explain", "--run", run().path(), "--replay", "--json"});
  const auto found = nlohmann::json::parse(again.output);
  EXPECT_EQ(found["first_difference"], nullptr) << again.output;
  const auto made = found["windows"].get<std::size_t>();
  EXPECT_EQ(made + found["skipped"].get<std::size_t>(), windows().size()) << again.output;
  EXPECT_GE(made, in_time.size()) << again.output;
  // The part that opens the first window cannot be late.
  EXPECT_GE(found["decisions"].get<std::ptrdiff_t>(), std::max<std::ptrdiff_t>(4 * decided, 1)) << again.output;
}

TEST_F(ArbitratorTree, GoesOnWhenAShardsHostHangsAndTakesItBack) {
  write_slow_file(4);
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  ASSERT_TRUE(local.signal_host("w2", SIGSTOP)) << local.said(); // w3 must find another shard
  ASSERT_TRUE(wait_for_shard("w2", ledger::shard_state::late)) << local.said();
  ASSERT_TRUE(wait_for_generation({"w0", "w1", "w3"})) << local.said();
  ASSERT_TRUE(local.signal_host("w2", SIGCONT)) << local.said();
  ASSERT_TRUE(wait_for_generation({"w0", "w1", "w2", "w3"}, 1)) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  for (const auto& formed : generations())
    EXPECT_LE(formed.steps_lost, 1U) << "generation " << formed.generation;
  for (const char* worker : {"w0", "w1", "w2", "w3"})
    EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum) << worker;
}

TEST_F(ArbitratorTree, GoesOnWhenAShardsHostIsKilledAndTakesItBack) {
  write_slow_file(4);
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  ASSERT_TRUE(local.signal_host("w2", SIGKILL)) << local.said(); // the shard of w2 and w3
  ASSERT_TRUE(wait_for_shard("w2", ledger::shard_state::lost)) << local.said();
  ASSERT_TRUE(wait_for_generation({"w0", "w1", "w2", "w3"}, 1)) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  for (const auto& formed : generations())
    EXPECT_LE(formed.steps_lost, 1U) << "generation " << formed.generation;
  for (const char* worker : {"w0", "w1", "w3"}) {
    EXPECT_EQ(farewell_of(worker).samples, 24000U);
    EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum);
  }
}

TEST_F(ArbitratorTree, GoesOnWhenAShardsHostLeavesInOrder) {
  write_slow_file(3);
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  ASSERT_TRUE(local.signal_host("w2", SIGTERM)) << local.said(); // w3 must find another shard
  ASSERT_TRUE(wait_for_generation({"w0", "w1", "w3"})) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("w2 has left: "));
  EXPECT_THAT(farewell_of("w2").reason, HasSubstr("left: its host was asked to end"));
  for (const auto& formed : generations())
    EXPECT_LE(formed.steps_lost, 1U) << "generation " << formed.generation;
  for (const char* worker : {"w0", "w1", "w3"}) {
    EXPECT_EQ(farewell_of(worker).samples, 18000U);
    EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum) << worker;
  }
}

} // namespace
} // namespace dynamix::cluster_test
