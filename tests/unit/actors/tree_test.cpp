// The tree's protocol, in virtual time and in orders that a seed picks.

#include "actors/arbitrator/deciding_rows.hpp"
#include "ledger/replay.hpp"
#include "tests/unit/actors/simulated_tree.hpp"

#include <gtest/gtest.h>

namespace dynamix::actors::testing {
namespace {

class Tree : public ::testing::TestWithParam<std::uint64_t> {
protected:
  static void expect_decided(const simulated_tree& cluster, std::uint32_t rank, std::uint64_t window) {
    const auto& decisions = cluster.inboxes[rank]->decisions;
    ASSERT_FALSE(decisions.empty()) << "rank " << rank;
    EXPECT_EQ(decisions.back().key.window, window) << "rank " << rank;
  }

  /// All decisions of a window carry one key.
  static void expect_one_key(const simulated_tree& cluster, std::uint64_t window) {
    std::set<messages::decision_key> keys;
    for (const auto& received : cluster.inboxes)
      for (const auto& decision : received->decisions)
        if (decision.key.window == window)
          keys.insert(decision.key);
    EXPECT_EQ(keys.size(), 1U) << "window " << window;
  }

  /// The root's ledger, read again.
  static ledger::replay_result replayed(const simulated_tree& cluster) {
    std::string problem;
    std::vector<ledger::row> rows{{.entry = describe_file(cluster.file)},
                                  {.entry = describe_deciding(cluster.file, {}, nullptr, problem)}};
    rows.insert(rows.end(), cluster.rows->rows.begin(), cluster.rows->rows.end());
    return ledger::replay(rows, cluster.file, [](const auto&, auto&) { return "there is no archive"; });
  }

  static std::size_t lost(const simulated_tree& cluster) {
    std::size_t count = 0;
    for (const auto& event : cluster.rows->all<ledger::event>())
      count += event.event == ledger::event_kind::lost;
    return count;
  }
};

/// The shard that it has left finds it silent; it once was given up for that, and for ever.
TEST_P(Tree, IgnoresAnAbsenceFromAShardThatTheWorkerHasLeft) {
  for (const auto& [workers, fanout] : {std::pair(6U, 3U), std::pair(20U, 3U)}) {
    simulated_tree cluster(workers, fanout, GetParam());
    cluster.join_all();
    cluster.places[1] = cluster.plan.shard_of(cluster.plan.nodes[cluster.places[1]].workers);
    cluster.say_hello(1, true); // is sent home
    cluster.run();
    cluster.say_hello(1, true);
    cluster.advance(std::chrono::seconds(4));
    EXPECT_EQ(lost(cluster), 0U);
    EXPECT_TRUE(cluster.inboxes[1]->notices.empty());
  }
}

TEST_P(Tree, FormsOneGenerationOfAllWorkersAndDecidesForAll) {
  for (const auto& [workers, fanout] : {std::pair(6U, 3U), std::pair(20U, 3U)}) { // 2 and 3 levels
    simulated_tree cluster(workers, fanout, GetParam());
    cluster.join_all();
    const auto formed = cluster.rows->all<ledger::generation>();
    ASSERT_EQ(formed.size(), 1U);
    EXPECT_EQ(formed[0].members.size(), workers);
    for (const auto& received : cluster.inboxes)
      ASSERT_EQ(received->places.size(), 1U);
    for (std::uint64_t window = 1; window <= 6; ++window) {
      cluster.report_all(window);
      cluster.advance(std::chrono::milliseconds(250));
      for (std::uint32_t rank = 0; rank < workers; ++rank)
        expect_decided(cluster, rank, window);
      expect_one_key(cluster, window);
    }
    const auto windows = cluster.rows->all<ledger::window>();
    ASSERT_EQ(windows.size(), 6U);
    EXPECT_EQ(windows.back().workers.size(), workers);
    EXPECT_GT(cluster.inboxes[0]->decisions.back().batch, cluster.inboxes[2]->decisions.back().batch)
        << "the slow one gets less, by the root's guidance";
    EXPECT_EQ(cluster.rows->all<ledger::shard>().size(), cluster.plan.nodes[0].children.size());
  }
}

TEST_P(Tree, RestartsAShardWhoseActorDiesAndGoesOnInTheSameGeneration) {
  simulated_tree cluster(9, 3, GetParam());
  cluster.join_all();
  cluster.report_all(1);
  const auto shard = cluster.plan.shard_of(4);
  caf::anon_send_exit(cluster.nodes[shard].aggregator, caf::exit_reason::kill);
  cluster.run();
  cluster.report_all(2); // those of the dead shard go nowhere; the others miss nothing
  for (const std::uint32_t rank : {0U, 2U, 6U, 8U})
    expect_decided(cluster, rank, 2);
  cluster.advance(std::chrono::milliseconds(1000));
  for (const std::uint32_t rank : {3U, 4U, 5U})
    cluster.say_hello(rank, true); // as a worker does whose aggregator is gone
  cluster.run();
  cluster.report_all(3);
  for (std::uint32_t rank = 0; rank < 9; ++rank)
    expect_decided(cluster, rank, 3);
  cluster.advance(std::chrono::seconds(5));
  EXPECT_EQ(cluster.rows->all<ledger::generation>().size(), 1U);
  EXPECT_EQ(lost(cluster), 0U);
  expect_one_key(cluster, 3);
}

TEST_P(Tree, TakesADeadShardsWorkersInAtItsSiblingsWithoutEndingTheGeneration) {
  simulated_tree cluster(9, 3, GetParam());
  cluster.join_all();
  cluster.report_all(1);
  const auto dead = cluster.plan.shard_of(3);
  const auto sibling = cluster.plan.places_for_worker(3)[1];
  cluster.kill_host(dead);
  cluster.report_all(2);
  for (const std::uint32_t rank : {0U, 8U})
    expect_decided(cluster, rank, 2);
  cluster.advance(std::chrono::milliseconds(900));
  for (const std::uint32_t rank : {3U, 4U, 5U}) {
    cluster.places[rank] = sibling;
    cluster.say_hello(rank, true);
    cluster.run();
  }
  cluster.places[4] = cluster.plan.shard_of(0); // by then it has more room
  cluster.say_hello(4, true);
  cluster.run();
  cluster.report_all(3);
  for (std::uint32_t rank = 0; rank < 9; ++rank)
    expect_decided(cluster, rank, 3);
  cluster.advance(std::chrono::seconds(5));
  EXPECT_EQ(cluster.rows->all<ledger::generation>().size(), 1U);
  EXPECT_EQ(lost(cluster), 0U);
  EXPECT_EQ(cluster.rows->all<ledger::window>().back().workers.size(), 9U);
}

TEST_P(Tree, EndsTheGenerationWhenADeadShardsWorkersDoNotComeBack) {
  simulated_tree cluster(9, 3, GetParam());
  cluster.join_all();
  cluster.report_all(1);
  cluster.kill_host(cluster.plan.shard_of(3));
  for (const std::uint32_t rank : {3U, 4U, 5U})
    cluster.silent.insert(rank);
  cluster.advance(std::chrono::seconds(2));
  EXPECT_EQ(lost(cluster), 0U) << "they have time to come through another";
  cluster.advance(std::chrono::seconds(3));
  EXPECT_EQ(lost(cluster), 3U);
  EXPECT_FALSE(cluster.inboxes[0]->notices.empty());
}

TEST_P(Tree, TellsTheRootOfAWorkerThatBreaksOffOrFallsSilent) {
  simulated_tree cluster(6, 3, GetParam());
  cluster.join_all();
  cluster.silent.insert(1);
  caf::anon_send_exit(cluster.handles[1], caf::exit_reason::kill);
  cluster.run();
  EXPECT_EQ(lost(cluster), 1U) << "at once";
  cluster.silent.insert(5);
  cluster.advance(std::chrono::milliseconds(cluster.timeouts.silence_ms + 600));
  EXPECT_EQ(lost(cluster), 2U);
}

/// Its shard has decided on a report of it that the root had before its loss, or gets behind it. Once nothing that the
/// shard decided from then on could be decided again.
TEST_P(Tree, LeavesALedgerFromWhichAllDecisionsFollowAlsoBehindALostWorker) {
  for (const bool told_before : {true, false}) {
    simulated_tree cluster(6, 3, GetParam());
    cluster.join_all();
    cluster.report_all(1);
    cluster.report_all(2);
    for (const std::uint32_t rank : {0U, 1U, 2U})
      cluster.send_report(rank, 3);
    if (told_before)
      cluster.run();
    cluster.silent.insert(1);
    caf::anon_send_exit(cluster.handles[1], caf::exit_reason::kill);
    cluster.run();
    EXPECT_EQ(lost(cluster), 1U);
    for (const std::uint32_t rank : {0U, 2U, 3U, 4U, 5U}) { // as workers do that have lost a peer
      cluster.inboxes[rank]->steps = 30;
      cluster.say_hello(rank);
    }
    for (int waited = 0; waited < 60 && cluster.rows->all<ledger::generation>().size() < 2; ++waited)
      cluster.advance(std::chrono::seconds(1));
    ASSERT_EQ(cluster.rows->all<ledger::generation>().size(), 2U);
    for (std::uint64_t window = 4; window <= 7; ++window)
      cluster.report_all(window);
    const auto again = replayed(cluster);
    EXPECT_TRUE(again.proven()) << ledger::to_text(again);
    EXPECT_EQ(again.windows, cluster.rows->all<ledger::window>().size());
    EXPECT_GE(again.windows, 6U);
    const auto windows = cluster.rows->all<ledger::window>();
    for (const auto& window : windows)
      if (window.generation == windows.front().generation) {
        EXPECT_EQ(window.key.term, windows.front().key.term) << "its shards decided under that";
      }
  }
}

/// Its shard forgot the process that had said hello since.
TEST_P(Tree, IgnoresTheStaleFarewellOfAPreviousIncarnation) {
  simulated_tree cluster(6, 3, GetParam());
  cluster.join_all();
  cluster.report_all(1);
  caf::anon_send(
      cluster.nodes[cluster.places[1]].aggregator, atom::farewell_v,
      pack(messages::farewell{
          .host = "w1", .rank = 1, .succeeded = true, .reason = "done", .decisions = {}, .incarnation = 99}));
  cluster.run();
  EXPECT_TRUE(cluster.rows->all<ledger::farewell>().empty());
  cluster.report_all(2);
  expect_decided(cluster, 1, 2);
  EXPECT_EQ(cluster.rows->all<ledger::window>().back().workers.size(), 6U);
}

TEST_P(Tree, DecidesOnInShardsThatHaveLostTheirParent) {
  simulated_tree cluster(9, 3, GetParam());
  cluster.join_all();
  for (std::uint64_t window = 1; window <= 3; ++window)
    cluster.report_all(window);
  caf::anon_send_exit(cluster.root_door, caf::exit_reason::kill);
  caf::anon_send_exit(cluster.root, caf::exit_reason::user_shutdown);
  cluster.run();
  std::set<std::uint32_t> batches;
  for (std::uint64_t window = 4; window <= 6; ++window) {
    cluster.report_all(window);
    cluster.advance(std::chrono::seconds(1));
    batches.insert(cluster.inboxes[0]->decisions.back().batch);
    for (std::uint32_t rank = 0; rank < 9; ++rank)
      expect_decided(cluster, rank, window);
    expect_one_key(cluster, window);
  }
  EXPECT_EQ(batches.size(), 1U) << "by the last guidance";
}

TEST_P(Tree, FindsANewParentAboveADeadOne) {
  simulated_tree cluster(20, 3, GetParam());
  cluster.join_all();
  cluster.report_all(1);
  const auto above = cluster.plan.nodes[cluster.plan.shard_of(0)].parent;
  ASSERT_NE(above, 0U);
  cluster.kill_host(above);
  cluster.report_all(2);
  for (std::uint32_t rank = 0; rank < 20; ++rank)
    expect_decided(cluster, rank, 2);
  cluster.advance(std::chrono::milliseconds(1500));
  for (std::uint32_t rank = 0; rank < 20; ++rank)
    if (cluster.plan.nodes[cluster.plan.shard_of(rank)].parent == above)
      cluster.say_hello(rank, true); // their shards have begun anew
  cluster.run();
  cluster.report_all(3);
  cluster.advance(std::chrono::seconds(4));
  for (std::uint32_t rank = 0; rank < 20; ++rank)
    expect_decided(cluster, rank, 3);
  EXPECT_EQ(lost(cluster), 0U);
  EXPECT_EQ(cluster.rows->all<ledger::generation>().size(), 1U);
  EXPECT_EQ(cluster.rows->all<ledger::window>().back().workers.size(), 20U);
}

TEST_P(Tree, GoesByADeadlineWhereAWorkerOrAShardIsLate) {
  simulated_tree cluster(6, 3, GetParam());
  cluster.join_all();
  cluster.report_all(1);
  for (const std::uint32_t rank : {0U, 1U, 3U, 4U, 5U})
    cluster.send_report(rank, 2);
  cluster.run();
  expect_decided(cluster, 5, 2);
  EXPECT_EQ(cluster.inboxes[0]->decisions.back().key.window, 1U) << "its shard still waits";
  cluster.advance(std::chrono::milliseconds(cluster.timeouts.gather_timeout_ms + 200));
  for (std::uint32_t rank = 0; rank < 6; ++rank)
    expect_decided(cluster, rank, 2);
  const auto row = cluster.rows->all<ledger::window>().back();
  ASSERT_EQ(row.key.window, 2U);
  ASSERT_EQ(row.workers.size(), 6U);
  EXPECT_TRUE(row.workers[2].stale) << "its last report stands in, marked as old";
}

TEST(TreeAtScale, TakesAStormOfJoinsWhileOthersComeAndGo) {
  simulated_tree cluster(300, 20, 5);
  for (std::uint32_t rank = 0; rank < 300; ++rank) {
    cluster.say_hello(rank);
    if (rank % 7 == 0)
      cluster.say_hello(rank); // twice, as after a broken connection
  }
  cluster.run();
  ASSERT_EQ(cluster.rows->all<ledger::generation>().size(), 1U);
  EXPECT_EQ(cluster.rows->all<ledger::generation>()[0].members.size(), 300U);
  for (std::uint64_t window = 1; window <= 2; ++window)
    cluster.report_all(window);
  for (const auto& received : cluster.inboxes)
    EXPECT_EQ(received->decisions.size(), 2U);
  for (const auto& event : cluster.rows->all<ledger::event>())
    EXPECT_LT(event.text.size(), 400U) << "no row names hundreds";
}

INSTANTIATE_TEST_SUITE_P(Seeds, Tree, ::testing::Range<std::uint64_t>(1, 6));

} // namespace
} // namespace dynamix::actors::testing
