#include "cluster/decision_steps.hpp"
#include "ledger/codec.hpp"
#include "tests/unit/actors/simulated_shard.hpp"

#include <gtest/gtest.h>

namespace dynamix::actors {
namespace {

using testing::simulated_shard;
using namespace std::chrono_literals;

std::uint64_t decisions_made(const simulated_shard& shard, std::uint32_t rank) {
  std::uint64_t made = 0;
  for (const auto& window : shard.rows->all<ledger::window>())
    if (window.decided)
      for (const auto& worker : window.workers)
        made += worker.report.rank == rank;
  return made;
}

/// Whatever the order in which the actors run: each worker gets each decision once, in rising order, inside its bounds.
TEST(Protocol, EveryWindowIsDecidedOnceForEveryWorkerInAnyOrder) {
  constexpr std::uint32_t workers = 4;
  constexpr std::uint64_t windows = 20;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    simulated_shard shard(workers, seed);
    shard.join_all();
    for (std::uint64_t window = 1; window <= windows; ++window) {
      for (std::uint32_t rank = 0; rank < workers; ++rank)
        shard.send_report(rank, window, window == windows);
      shard.run();
    }
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      const auto& decisions = shard.inboxes[rank]->decisions;
      ASSERT_EQ(decisions.size(), windows - 1) << "seed " << seed << ": all but the last window";
      messages::decision_key last;
      for (const auto& decision : decisions) {
        ASSERT_GT(decision.key, last) << "seed " << seed;
        last = decision.key;
        ASSERT_EQ(decision.rank, rank);
        ASSERT_GE(decision.batch, shard.file.batch.lowest);
        ASSERT_LE(decision.batch, shard.file.batch.highest);
        const auto window_steps = shard.file.arbitrator.window_steps;
        ASSERT_EQ(decision.first_step, cluster::decision_step((decision.key.window - 1) * window_steps, window_steps));
      }
      ASSERT_EQ(decisions_made(shard, rank), decisions.size()) << "seed " << seed << ": none lost";
      shard.say_farewell(rank);
    }
    shard.run();
    const auto ended = shard.events->take();
    ASSERT_TRUE(ended.arbitrator) << "seed " << seed;
    ASSERT_TRUE(ended.arbitrator->succeeded) << ended.arbitrator->reason;
    ASSERT_EQ(ended.farewells.size(), workers);
  }
}

TEST(Protocol, ASeedGivesTheSameRunTwice) {
  std::vector<std::string> lines[2];
  for (auto& log : lines) {
    simulated_shard shard(3, 42);
    shard.join_all();
    for (std::uint64_t window = 1; window <= 10; ++window) {
      for (std::uint32_t rank = 0; rank < 3; ++rank)
        shard.send_report(rank, window);
      shard.advance(10ms);
    }
    for (auto row : shard.rows->rows) {
      if (auto* decided = std::get_if<ledger::window>(&row.entry))
        decided->decide_seconds = 0; // the machine's time, not the simulation's
      log.push_back(ledger::to_json_line(row));
    }
  }
  EXPECT_GT(lines[0].size(), 10U);
  EXPECT_EQ(lines[0], lines[1]);
}

TEST(Protocol, ALateReportDelaysNobodyBeyondTheDeadline) {
  simulated_shard shard(2, 7);
  shard.join_all();
  shard.send_report(0, 1);
  shard.send_report(1, 1);
  shard.run();
  shard.send_report(0, 2);
  shard.run();
  EXPECT_EQ(shard.inboxes[0]->decisions.size(), 1U) << "window 2 still waits";
  shard.advance(std::chrono::milliseconds(shard.timeouts.gather_timeout_ms));
  ASSERT_EQ(shard.inboxes[0]->decisions.size(), 2U);
  const auto windows = shard.rows->all<ledger::window>();
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_FALSE(windows[1].workers[0].stale);
  EXPECT_TRUE(windows[1].workers[1].stale);
}

TEST(Protocol, ALostWorkerEndsTheGenerationAndTheOthersGoOnInTheNext) {
  simulated_shard shard(3, 11);
  shard.join_all();
  for (const auto& inbox : shard.inboxes) {
    ASSERT_EQ(inbox->places.size(), 1U);
    EXPECT_EQ(inbox->places[0].members, (std::vector<std::uint32_t>{0, 1, 2}));
    inbox->steps = 7;
  }
  shard.kill(1);
  shard.run();
  for (const auto rank : {0U, 2U}) {
    ASSERT_EQ(shard.inboxes[rank]->notices.size(), 1U);
    EXPECT_EQ(shard.inboxes[rank]->notices[0].change, messages::generation_change::ended);
    EXPECT_NE(shard.inboxes[rank]->notices[0].reason.find("w1"), std::string::npos);
    shard.say_hello_again(rank);
  }
  shard.run();
  for (const auto rank : {0U, 2U}) {
    ASSERT_EQ(shard.inboxes[rank]->places.size(), 2U);
    EXPECT_EQ(shard.inboxes[rank]->places[1].members, (std::vector<std::uint32_t>{0, 2}));
    shard.send_report(rank, 3);
  }
  shard.run();
  EXPECT_EQ(shard.inboxes[0]->decisions.size(), 1U) << "nobody waits for the one that is lost";
  for (const auto rank : {0U, 2U})
    shard.say_farewell(rank);
  shard.advance(1s);
  const auto ended = shard.events->take();
  ASSERT_TRUE(ended.arbitrator);
  EXPECT_TRUE(ended.arbitrator->succeeded) << ended.arbitrator->reason;
  EXPECT_EQ(ended.arbitrator->reason, "w0 and w2 finished");
  const auto formed = shard.rows->all<ledger::generation>();
  ASSERT_EQ(formed.size(), 2U);
  EXPECT_EQ(formed[1].members, (std::vector<std::string>{"w0", "w2"}));
}

/// A window that two generations train is decided in each, and no worker takes one decision for the other.
TEST(Protocol, AGenerationDecidesUnderATermOfItsOwn) {
  simulated_shard shard(2, 18);
  shard.join_all();
  shard.send_report(0, 1);
  shard.send_report(1, 1);
  shard.run();
  shard.kill(1);
  shard.run();
  shard.inboxes[0]->steps = 9;
  shard.say_hello_again(0);
  shard.advance(1s); // steps that one alone tells of do not count, and what has completed none waits a little
  shard.send_report(0, 1);
  shard.run();
  const auto& decisions = shard.inboxes[0]->decisions;
  ASSERT_EQ(decisions.size(), 2U);
  EXPECT_EQ(decisions[0].key.window, decisions[1].key.window);
  EXPECT_GT(decisions[1].key.term, decisions[0].key.term);
}

/// The connection breaks but the worker lives: it says hello again and is decided for as before.
TEST(Protocol, AWorkerThatComesBackIsDecidedForAgain) {
  simulated_shard shard(1, 12);
  shard.join_all();
  caf::anon_send_exit(shard.handles[0], caf::exit_reason::kill);
  shard.run();
  shard.handles[0] = shard.system.spawn(testing::recording_worker, shard.inboxes[0]);
  shard.say_hello_again(0);
  shard.run();
  shard.advance(std::chrono::milliseconds(shard.timeouts.rejoin_timeout_ms));
  EXPECT_FALSE(shard.events->take().arbitrator) << "the run goes on";
  ASSERT_EQ(shard.inboxes[0]->generation(), 2U);
  shard.send_report(0, 1);
  shard.run();
  EXPECT_EQ(shard.inboxes[0]->decisions.size(), 1U);
}

/// A hung worker is found by its silence, and comes back when it wakes, without a new connection.
TEST(Protocol, AWorkerThatWakesComesBack) {
  simulated_shard shard(2, 20);
  shard.join_all();
  shard.silent.insert(1);
  shard.advance(std::chrono::milliseconds(2000));
  ASSERT_EQ(shard.inboxes[0]->notices.size(), 1U);
  shard.inboxes[0]->steps = 3;
  shard.say_hello_again(0);
  shard.run();
  ASSERT_EQ(shard.inboxes[0]->places.back().members, std::vector<std::uint32_t>{0});
  shard.silent.clear();
  shard.inboxes[1]->notices.clear();
  shard.advance(300ms);
  ASSERT_FALSE(shard.inboxes[1]->notices.empty()) << "it is told that its generation is over";
  shard.say_hello_again(1);
  shard.advance(1s);
  EXPECT_EQ(shard.inboxes[0]->notices.back().change, messages::generation_change::regroup);
  shard.say_hello_again(0);
  shard.run();
  EXPECT_EQ(shard.inboxes[0]->places.back().members, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(shard.inboxes[1]->places.back(), shard.inboxes[0]->places.back());
}

/// The one arbitrator's host is asked to end: training ends in order, instead of going on without it.
TEST(Protocol, AStopIsPassedOnToEveryWorkerAndToThoseWhoComeLater) {
  simulated_shard shard(2, 21);
  shard.join_all();
  caf::anon_send(shard.aggregator, atom::stop_v);
  shard.run();
  for (const auto& inbox : shard.inboxes)
    EXPECT_EQ(inbox->stops, 1U);
  EXPECT_FALSE(shard.events->take().arbitrator) << "it waits for them";
  shard.kill(1);
  shard.run();
  shard.handles[1] = shard.system.spawn(testing::recording_worker, shard.inboxes[1]);
  shard.say_hello_again(1);
  shard.run();
  EXPECT_EQ(shard.inboxes[1]->stops, 2U);
}

TEST(Protocol, ARunWithoutWorkersEndsOnceTheyDoNotComeBack) {
  simulated_shard shard(1, 14);
  shard.join_all();
  shard.kill(0);
  shard.run();
  shard.advance(std::chrono::milliseconds(shard.timeouts.rejoin_timeout_ms));
  EXPECT_FALSE(shard.events->take().arbitrator);
  shard.advance(std::chrono::milliseconds(shard.timeouts.join_timeout_ms));
  ASSERT_TRUE(shard.events->take().arbitrator);
  EXPECT_FALSE(shard.events->take().arbitrator->succeeded);
  EXPECT_EQ(shard.events->take().arbitrator->reason, "lost w0 in mid-training");
}

/// The arbitrator dies between two windows: its supervisor restarts it, and its decisions go on in order.
TEST(Protocol, ARestartedArbitratorGoesOnWithTheNextWindow) {
  simulated_shard shard(2, 13);
  shard.join_all();
  for (std::uint64_t window = 1; window <= 6; ++window) {
    if (window == 4) {
      caf::anon_send_exit(shard.judge, caf::exit_reason::kill);
      shard.run();
      shard.advance(10s);
    }
    shard.send_report(0, window);
    shard.send_report(1, window);
    shard.run();
  }
  const auto& decisions = shard.inboxes[0]->decisions;
  const auto told = shard.rows->all<ledger::event>();
  EXPECT_EQ(std::ranges::count(told, ledger::event_kind::restarted, &ledger::event::event), 1);
  ASSERT_EQ(decisions.size(), 6U);
  for (std::size_t i = 1; i < decisions.size(); ++i)
    EXPECT_GT(decisions[i].key, decisions[i - 1].key);
  EXPECT_GT(decisions.back().key.term, decisions.front().key.term) << "it decides under a term of its own";
}

/// The aggregator dies: it and the arbitrator that depends on it are restarted, the workers say hello again and go on.
TEST(Protocol, ARestartedAggregatorTakesTheRunningGenerationOver) {
  simulated_shard shard(2, 16);
  shard.join_all();
  shard.send_report(0, 1);
  shard.send_report(1, 1);
  shard.run();
  const auto aggregator_before = shard.aggregator;
  const auto judge_before = shard.judge;
  caf::anon_send_exit(shard.aggregator, caf::exit_reason::kill);
  shard.run();
  shard.advance(1s);
  EXPECT_NE(shard.aggregator, aggregator_before);
  EXPECT_NE(shard.judge, judge_before) << "rest_for_one";
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    messages::hello again;
    again.last_decision = shard.inboxes[rank]->decisions.back().key;
    shard.say_hello_in_training(rank, again);
  }
  shard.run();
  shard.send_report(0, 2);
  shard.send_report(1, 2);
  shard.run();
  for (const auto& inbox : shard.inboxes) {
    ASSERT_EQ(inbox->decisions.size(), 2U);
    EXPECT_GT(inbox->decisions[1].key.term, inbox->decisions[0].key.term);
  }
  EXPECT_FALSE(shard.events->take().failure);
}

/// A new arbitrator process meets workers in mid-training: it decides under a higher term than the one before.
TEST(Protocol, ANewArbitratorDecidesUnderAHigherTerm) {
  simulated_shard shard(2, 17);
  messages::hello said;
  said.generation = 1;
  said.last_decision = {.term = 5, .window = 30};
  shard.say_hello_in_training(0, said);
  shard.say_hello_in_training(1, said);
  shard.run();
  shard.send_report(0, 33);
  shard.send_report(1, 33);
  shard.run();
  ASSERT_EQ(shard.inboxes[0]->decisions.size(), 1U);
  EXPECT_GT(shard.inboxes[0]->decisions[0].key.term, 5U);
}

TEST(Protocol, TheArbitratorGivesUpWhenItKeepsFailing) {
  simulated_shard shard(1, 19);
  for (int failure = 0; failure < 6; ++failure) {
    caf::anon_send_exit(shard.judge, caf::exit_reason::kill);
    shard.run();
    shard.advance(1s);
  }
  const auto ended = shard.events->take();
  ASSERT_TRUE(ended.failure);
  EXPECT_NE(ended.failure->find("arbitrator failed"), std::string::npos) << *ended.failure;
}

TEST(Protocol, GarbageIsRefusedAndChangesNothing) {
  simulated_shard shard(1, 23);
  shard.join_all();
  caf::anon_send(shard.aggregator, atom::report_v, messages::message<messages::window_report>());
  const auto other = messages::encode(messages::decision{.key = {1, 1}, .generation = 1, .batch = 64});
  caf::anon_send(shard.aggregator, atom::report_v,
                 messages::message(messages::decode_as<messages::window_report>(other->view())));
  shard.run();
  shard.send_report(0, 1);
  shard.run();
  EXPECT_EQ(shard.inboxes[0]->decisions.size(), 1U);
}

TEST(Protocol, AReportFarAheadDoesNotKeepTheNextOnesFromBeingDecidedOn) {
  simulated_shard shard(2, 29);
  shard.join_all();
  shard.send_report(0, messages::max_counter / 1024);
  shard.run();
  shard.advance(std::chrono::milliseconds(2 * shard.timeouts.gather_timeout_ms));
  EXPECT_TRUE(shard.rows->all<ledger::window>().empty());
  for (const std::uint32_t rank : {0U, 1U})
    shard.send_report(rank, 1);
  shard.run();
  EXPECT_EQ(shard.inboxes[0]->decisions.size(), 1U);
}

TEST(Protocol, RefusedHellosDoNotLetTheLedgerGrow) {
  simulated_shard shard(2, 31);
  shard.join_all();
  const auto refusals = [&] {
    std::size_t count = 0;
    for (const auto& event : shard.rows->all<ledger::event>())
      count += event.event == ledger::event_kind::refused;
    return count;
  };
  messages::hello said{.cluster = "another", .cluster_digest = 1, .host = "w0", .incarnation = 77, .members = {}};
  said.heartbeat_interval_ms = shard.timeouts.heartbeat_interval_ms;
  for (int call = 0; call < 50; ++call)
    caf::anon_send(shard.door, atom::hello_v, pack(said), shard.handles[0]);
  shard.run();
  EXPECT_EQ(refusals(), 1U) << "once for the same reason";
  for (int call = 0; call < 50; ++call) {
    said.host = "stranger-" + std::to_string(call);
    caf::anon_send(shard.door, atom::hello_v, pack(said), shard.handles[0]);
  }
  said.host = "w0";
  said.cluster = shard.file.name;
  said.cluster_digest = shard.file.digest();
  said.incarnation = 1;
  said.attempted_steps = messages::max_counter;
  caf::anon_send(shard.door, atom::hello_v, pack(said), shard.handles[0]);
  shard.run();
  EXPECT_EQ(refusals(), 1U) << "neither strangers nor what cannot be true";
}

} // namespace
} // namespace dynamix::actors
