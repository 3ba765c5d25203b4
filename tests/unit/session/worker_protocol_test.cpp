#include "messages/leave.hpp"
#include "tests/unit/session/tested_worker.hpp"

#include <gmock/gmock.h>

#include <string>

namespace dynamix::session {
namespace {

using messages::welcome_verdict;
using ::testing::HasSubstr;
using testing::phase;
using testing::Worker;

/// One that joins an open cluster.
const worker_options guest{
    .timeouts = {}, .guest = true, .identity = {.cluster = "tested", .host = "guest", .incarnation = 7}};

TEST_F(Worker, SaysHelloWhenConnectedAndJoinsOnce) {
  happen(events::tick{});
  EXPECT_TRUE(done.empty()) << "nobody is there to hear of it";
  happen(events::connected{});
  EXPECT_EQ(hello.hello.host, "w1");
  EXPECT_EQ(hello.hello.checkpoint_steps, 4U);
  EXPECT_EQ(protocol.now(), phase::greeting);
  done.clear();
  answer({.term = 1, .rank = 1});
  EXPECT_EQ(protocol.now(), phase::waiting);
  const auto joined = look<effects::join>();
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_EQ(joined[0].rank, 1U);
  EXPECT_EQ(joined[0].decisions.get(), protocol.decisions());
  happen(events::aggregator_down{});
  answer({.term = 2, .rank = 1});
  EXPECT_FALSE(did<effects::join>());
}

/// A host that only sums completes no steps, so no progress is missed, and nobody agrees with it on an end.
TEST_F(Worker, ThatOnlyServesIsNotCutOffByItsArbitratorsLossAndLeavesAtOnce) {
  protocol = worker_protocol({.timeouts = timeouts, .serves = true, .workers = 1, .identity = {.host = "w1"}});
  happen(events::connected{});
  answer({.term = 1, .rank = 1});
  place(1, {0, 1});
  EXPECT_TRUE(did<effects::enter_generation>());
  happen(events::disconnected{});
  for (int tick = 0; tick < 1000; ++tick) {
    now += timeouts.beat_interval_ms / 1000.0;
    happen(events::tick{});
  }
  EXPECT_FALSE(did<effects::interrupt>());
  happen(events::leave_requested{});
  EXPECT_TRUE(did<effects::interrupt>());
}

TEST_F(Worker, CountsOnlyWorkersAmongThoseWhoGoOnWithoutIt) {
  protocol = worker_protocol({.timeouts = timeouts, .workers = 2, .identity = {.host = "w1"}});
  happen(events::connected{});
  answer({.term = 1, .rank = 1});
  place(1, {1, 2, 3});
  happen(events::leave_requested{});
  EXPECT_TRUE(did<effects::ask_to_stop>()) << "nobody who trains would be left";
}

TEST_F(Worker, GreetsAgainWithADelayThatDoublesUpToABound) {
  happen(events::connected{});
  for (const double expected : {0.1, 0.2, 0.4, 0.5, 0.5}) {
    happen(events::hello_answered{hello.number, std::nullopt});
    const auto later = look<effects::greet_later>();
    ASSERT_EQ(later.size(), 1U);
    EXPECT_DOUBLE_EQ(later[0].seconds, expected);
    happen(events::greeting_due{});
    ASSERT_TRUE(did<effects::say_hello>());
  }
}

TEST_F(Worker, TakesOnlyTheAnswerToItsNewestHello) {
  happen(events::connected{});
  const auto before = hello.number;
  happen(events::disconnected{});
  happen(events::connected{});
  happen(events::hello_answered{before, messages::welcome{}});
  EXPECT_EQ(protocol.now(), phase::greeting);
  answer();
  EXPECT_EQ(protocol.now(), phase::waiting);
}

TEST_F(Worker, GoesWhereItIsToldWhenTheGatewayDoesNotLead) {
  happen(events::connected{});
  refuse(welcome_verdict::not_leader, "south");
  const auto redirected = look<effects::redirect>();
  ASSERT_EQ(redirected.size(), 1U);
  EXPECT_EQ(redirected[0].leader, "south");
}

TEST_F(Worker, WaitsForItsFormerProcessToBeMissedButNotForEver) {
  happen(events::connected{});
  const double patience_seconds = 2 * timeouts.connection_timeout_ms / 1000.0;
  refuse(welcome_verdict::duplicate_host);
  now += patience_seconds / 2;
  happen(events::greeting_due{});
  refuse(welcome_verdict::duplicate_host);
  EXPECT_TRUE(did<effects::greet_later>());
  now += patience_seconds / 2;
  happen(events::greeting_due{});
  refuse(welcome_verdict::duplicate_host);
  const auto ended = look<effects::end>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_FALSE(ended[0].succeeded);
  EXPECT_EQ(ended[0].reason, "the arbitrator refused this host: because");
}

TEST_F(Worker, ThatTheFileDoesNotNameWaitsForAPlaceAndSaysWhyOnce) {
  protocol = worker_protocol(guest);
  happen(events::connected{});
  for (int asked = 0; asked < 3; ++asked) {
    done.clear();
    refuse(welcome_verdict::unknown_host);
    EXPECT_EQ(done.size(), asked == 0 ? 2U : 1U) << "the reason, and the delay";
    const auto later = look<effects::greet_later>();
    ASSERT_EQ(later.size(), 1U);
    now += later[0].seconds;
    happen(events::greeting_due{});
    EXPECT_TRUE(did<effects::say_hello>());
  }
  answer({.rank = 2});
  EXPECT_EQ(protocol.now(), phase::waiting);
}

TEST_F(Worker, ThatWaitsForAPlaceEndsWellWhenItIsToldThatTrainingIsOver) {
  protocol = worker_protocol(guest);
  happen(events::connected{});
  notice(1, messages::generation_change::ended);
  EXPECT_FALSE(did<effects::end>()) << "nobody has said that it has no place";
  refuse(welcome_verdict::unknown_host);
  notice(1, messages::generation_change::ended);
  const auto ended = look<effects::end>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_TRUE(ended[0].succeeded);
}

TEST_F(Worker, ThatTheFileDoesNotNameDoesNotWaitForEverForAnArbitratorThatIsGone) {
  protocol = worker_protocol(guest);
  happen(events::connected{});
  refuse(welcome_verdict::unknown_host);
  happen(events::disconnected{});
  const double patience_seconds = timeouts.join_timeout_ms / 1000.0;
  wait(patience_seconds - 1);
  EXPECT_FALSE(did<effects::end>());
  happen(events::connected{}); // a successor, which has no place for it either
  refuse(welcome_verdict::unknown_host);
  wait(patience_seconds - 1);
  EXPECT_FALSE(did<effects::end>());
  wait(2);
  const auto ended = look<effects::end>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_FALSE(ended[0].succeeded);
  EXPECT_THAT(ended[0].reason, HasSubstr("training is over, or its arbitrator is out of reach"));
}

TEST_F(Worker, OfTheFileWaitsForItsArbitratorHoweverLongThatTakes) {
  wait(10 * timeouts.join_timeout_ms / 1000.0);
  EXPECT_FALSE(did<effects::end>());
}

TEST_F(Worker, EndsWhereItsRankWasGivenToAnother) {
  protocol = worker_protocol(guest);
  join();
  happen(events::aggregator_down{});
  done.clear();
  answer({.term = 2, .rank = 4});
  const auto ended = look<effects::end>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_FALSE(ended[0].succeeded);
}

TEST_F(Worker, EndsWellWhereTrainingIsOver) {
  happen(events::connected{});
  refuse(welcome_verdict::generation_closed);
  const auto ended = look<effects::end>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_TRUE(ended[0].succeeded);
}

TEST_F(Worker, TrainsOnWhereItIsRefusedInMidTraining) {
  train();
  happen(events::aggregator_down{});
  refuse(welcome_verdict::generation_closed);
  EXPECT_EQ(protocol.now(), phase::training);
  EXPECT_FALSE(did<effects::end>());
}

TEST_F(Worker, TakesAPlacementOnceAndOnlyWhereItIsAMember) {
  join();
  place(1, {0, 2});
  EXPECT_EQ(protocol.now(), phase::waiting);
  done.clear();
  place(1);
  EXPECT_EQ(protocol.now(), phase::training);
  EXPECT_TRUE(did<effects::enter_generation>());
  place(2);
  EXPECT_FALSE(did<effects::enter_generation>());
  EXPECT_EQ(protocol.newest().generation, 1U);
}

TEST_F(Worker, RefusesAPlacementThatWasFormedOnWhatItSaidBeforeItTrained) {
  train();
  leave_generation();
  place(2);
  EXPECT_EQ(protocol.now(), phase::waiting) << "its state would be overwritten";
  answer({.term = 1, .rank = 1});
  place(2);
  EXPECT_EQ(protocol.now(), phase::training);
}

TEST_F(Worker, LeavesAGenerationWhoseNumberAnotherOneWasGiven) {
  train();
  place(1, {0, 1, 2}, true);
  EXPECT_FALSE(did<effects::interrupt>()) << "the same placement twice";
  place(1, {0, 1, 2}, false);
  EXPECT_TRUE(did<effects::interrupt>());
}

TEST_F(Worker, SaysHelloAgainAtOnceWhereAnAnswerComesTooLateToBeTrue) {
  happen(events::connected{});
  const auto first = hello;
  answer({.rank = 1});
  place(1);
  happen(events::aggregator_down{});
  EXPECT_TRUE(hello.hello.training);
  steps = 12;
  leave_generation(13);
  done.clear();
  answer({.rank = 1});
  ASSERT_TRUE(did<effects::say_hello>()) << "it said that it trains, and does not any more";
  EXPECT_FALSE(hello.hello.training);
  EXPECT_EQ(hello.hello.steps, 12U);
  EXPECT_EQ(hello.hello.attempted_steps, 13U);
}

TEST_F(Worker, TellsAnArbitratorOfAnOlderTermWhichOneItHasObeyed) {
  train();
  happen(events::decision_received{{.key = {5, 1}, .generation = 1, .rank = 1, .batch = 64}});
  happen(events::aggregator_down{});
  done.clear();
  answer({.term = 3, .rank = 1});
  ASSERT_TRUE(did<effects::say_hello>());
  EXPECT_EQ(hello.hello.last_decision.term, 5U);
  answer({.term = 6, .rank = 1});
  EXPECT_FALSE(did<effects::say_hello>());
}

TEST_F(Worker, LeavesAtOnceOrTogetherAsItIsTold) {
  train();
  notice(1, messages::generation_change::regroup);
  EXPECT_TRUE(did<effects::ask_to_regroup>());
  notice(7, messages::generation_change::ended);
  EXPECT_FALSE(did<effects::interrupt>()) << "another generation";
  notice(1, messages::generation_change::ended);
  const auto interrupted = look<effects::interrupt>();
  ASSERT_EQ(interrupted.size(), 1U);
  EXPECT_EQ(interrupted[0].reason, "a peer is lost");
}

TEST_F(Worker, OffersDecisionsToTheSlotAndRefusesStaleOnes) {
  train();
  decide(2);
  decide(1);
  decide(3, 9);
  decide(4, 1, 4096);
  std::vector<offer_verdict> verdicts;
  for (const auto& offered : look<effects::decision_offered>())
    verdicts.push_back(offered.verdict);
  EXPECT_EQ(verdicts, (std::vector{offer_verdict::accepted, offer_verdict::stale, offer_verdict::wrong_generation,
                                   offer_verdict::out_of_bounds}));
}

/// The whole cluster's limit once let a decision through that its host's memory does not allow.
TEST(WorkerOptions, HoldTheLimitOfItsHost) {
  cluster::cluster_file file;
  file.batch.highest = 1024;
  file.hosts = {{.name = "ada", .port = 1}, {.name = "ben", .port = 2, .batch_highest = 128}};
  EXPECT_EQ(options_of(file, 5, "ada", 7).highest_batch, 1024U);
  const auto options = options_of(file, 5, "ben", 7);
  EXPECT_EQ(options.highest_batch, 128U);
  EXPECT_EQ(options.identity.cluster_digest, 5U);
  EXPECT_EQ(options.identity.incarnation, 7U);
}

TEST_F(Worker, BeatsWithItsStepsAndLooksElsewhereWhereNobodyAnswers) {
  train();
  steps = 3;
  happen(events::tick{});
  const auto beats = look<effects::send_heartbeat>();
  ASSERT_EQ(beats.size(), 1U);
  EXPECT_EQ(beats[0].heartbeat, (messages::heartbeat{.rank = 1, .incarnation = 7, .generation = 1, .steps = 3}));
  happen(events::heartbeat_answered{.heard = true});
  EXPECT_FALSE(protocol.orphaned());
  happen(events::heartbeat_answered{.heard = false});
  EXPECT_TRUE(protocol.orphaned());
  EXPECT_TRUE(did<effects::redirect>());
  happen(events::heartbeat_answered{.heard = false});
  EXPECT_FALSE(did<effects::redirect>()) << "once";
  wait(1);
  EXPECT_FALSE(did<effects::send_heartbeat>());
}

TEST_F(Worker, SaysFarewellBehindTheLastDecisions) {
  train();
  report(1);
  decide(1);
  steps = 20;
  complete_training();
  EXPECT_EQ(protocol.now(), phase::leaving);
  EXPECT_TRUE(did<effects::settle_aggregator>());
  decide(2);
  happen(events::aggregator_settled{});
  const auto said = look<effects::say_farewell>();
  ASSERT_EQ(said.size(), 1U);
  const auto& farewell = said[0].farewell;
  EXPECT_TRUE(farewell.succeeded);
  EXPECT_EQ(farewell.host, "w1");
  EXPECT_EQ(farewell.incarnation, 7U);
  EXPECT_EQ(farewell.rank, 1U);
  EXPECT_EQ(farewell.steps, 20U);
  EXPECT_EQ(farewell.decisions.received, 2U);
  EXPECT_EQ(farewell.decisions.unapplied, 2U);
  EXPECT_DOUBLE_EQ(farewell.telemetry_seconds, 0.5);
  happen(events::farewell_answered{true});
  const auto ended = look<effects::end>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_TRUE(ended[0].succeeded);
  EXPECT_EQ(ended[0].farewell, farewell);
  EXPECT_EQ(protocol.now(), phase::ended);
}

TEST_F(Worker, EndsWithoutAWordWhereNobodyComesToHearIt) {
  train();
  happen(events::disconnected{});
  complete_training();
  wait(timeouts.rejoin_timeout_ms / 1000.0 - 1);
  EXPECT_FALSE(did<effects::end>());
  wait(2);
  EXPECT_TRUE(did<effects::end>());
}

TEST_F(Worker, TellsAnArbitratorThatComesBackTheEndOfItsTraining) {
  train();
  happen(events::disconnected{});
  report(2);
  steps = 20;
  complete_training();
  EXPECT_FALSE(did<effects::end>());
  happen(events::connected{});
  const auto hellos = look<effects::say_hello>();
  ASSERT_EQ(hellos.size(), 1U);
  EXPECT_TRUE(hellos[0].hello.training) << "else it would seem to want to go on";
  EXPECT_EQ(hellos[0].hello.generation, 1U);
  EXPECT_EQ(hellos[0].hello.steps, 20U);
  answer({.rank = 1});
  ASSERT_EQ(done.size(), 4U);
  EXPECT_TRUE(std::holds_alternative<effects::send_report>(done[2])) << "its last report comes first";
  EXPECT_TRUE(did<effects::settle_aggregator>());
  happen(events::aggregator_settled{});
  EXPECT_TRUE(did<effects::say_farewell>());
  happen(events::farewell_answered{true});
  EXPECT_TRUE(did<effects::end>());
}

TEST_F(Worker, LooksForAnotherArbitratorWhereTheOneThatItWasToTellTheEndIsLost) {
  train();
  complete_training();
  happen(events::aggregator_down{});
  happen(events::aggregator_settled{}); // in vain
  EXPECT_FALSE(did<effects::end>());
  answer({.rank = 1});
  EXPECT_TRUE(did<effects::settle_aggregator>());
}

TEST_F(Worker, LooksForAnotherArbitratorWhereNobodyHasHeardItsFarewell) {
  train();
  complete_training();
  happen(events::aggregator_settled{});
  happen(events::farewell_answered{false});
  EXPECT_FALSE(did<effects::end>());
  answer({.rank = 1});
  happen(events::aggregator_settled{});
  EXPECT_TRUE(did<effects::say_farewell>()) << "a second time";
  happen(events::farewell_answered{false});
  refuse(welcome_verdict::generation_closed);
  EXPECT_TRUE(did<effects::end>()) << "only the answer was lost";
}

TEST_F(Worker, LooksForNoArbitratorWhereItWasToStop) {
  train();
  happen(events::disconnected{});
  happen(events::stop_requested{});
  complete_training();
  EXPECT_TRUE(did<effects::end>());
}

TEST_F(Worker, EndsWhereAnArbitratorThatComesBackRefusesIt) {
  train();
  happen(events::disconnected{});
  complete_training();
  happen(events::connected{});
  refuse(welcome_verdict::cluster_mismatch);
  EXPECT_TRUE(did<effects::end>());
}

TEST_F(Worker, AsksItsPeersToPartWhenItsHostLeavesAndDropsTheStepWhenThatTakesTooLong) {
  train();
  happen(events::leave_requested{});
  EXPECT_TRUE(did<effects::ask_to_regroup>());
  wait(timeouts.silence_ms / 1000.0 + 0.5);
  EXPECT_EQ(look<effects::interrupt>().size(), 1U);
  steps = 9;
  leave_generation();
  const auto said = look<effects::say_farewell>();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_TRUE(messages::tells_leave(said[0].farewell)) << said[0].farewell.reason;
  happen(events::farewell_answered{true});
  const auto finishing = look<effects::finish_training>();
  ASSERT_EQ(finishing.size(), 1U) << "the checkpoint comes behind the farewell";
  end_after_checkpoint(finishing[0].reason);
  const auto ended = look<effects::end>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_TRUE(ended[0].succeeded);
  EXPECT_TRUE(ended[0].reason.ends_with("checkpoint written")) << ended[0].reason;
}

TEST_F(Worker, EndsTrainingWhereItIsTheLastToLeave) {
  join();
  place(1, {1});
  done.clear();
  happen(events::leave_requested{});
  EXPECT_TRUE(did<effects::ask_to_stop>());
}

TEST_F(Worker, IsNotWaitedForWhenItLeavesBetweenTwoGenerations) {
  train();
  leave_generation();
  done.clear();
  happen(events::leave_requested{});
  EXPECT_TRUE(did<effects::say_farewell>());
  place(2);
  EXPECT_FALSE(did<effects::enter_generation>());
}

TEST_F(Worker, LeavesWithoutMoreWhereItHasNotJoined) {
  happen(events::connected{});
  happen(events::leave_requested{});
  const auto ended = look<effects::end>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_TRUE(ended[0].succeeded);
  EXPECT_TRUE(messages::tells_leave(ended[0].farewell));
}

TEST_F(Worker, StopsAtTheNextAgreementOrBetweenTwoGenerations) {
  train();
  happen(events::stop_requested{});
  EXPECT_TRUE(did<effects::ask_to_stop>());
  leave_generation();
  const auto finishing = look<effects::finish_training>();
  ASSERT_EQ(finishing.size(), 1U);
  EXPECT_EQ(finishing[0].reason, "stopped: between two generations");
  happen(events::notice_received{{1, messages::generation_change::ended, "a peer is lost"}});
  EXPECT_FALSE(did<effects::say_hello>()) << "hellos and notices answered each other, 100,000 times per second";
  end_after_checkpoint(finishing[0].reason);
  happen(events::aggregator_settled{});
  const auto said = look<effects::say_farewell>();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_FALSE(said[0].farewell.succeeded);
  EXPECT_EQ(said[0].farewell.reason, "stopped: between two generations; checkpoint written");
  EXPECT_EQ(said[0].farewell.end, messages::farewell_end::cancelled);
}

TEST_F(Worker, WaitsForAnArbitratorWhereItIsCutOffAndNoStepIsCompleted) {
  train();
  steps = 5;
  wait(1);
  happen(events::disconnected{});
  wait(30);
  const auto interrupted = look<effects::interrupt>();
  ASSERT_FALSE(interrupted.empty());
  EXPECT_NE(interrupted[0].reason.find("cut off"), std::string::npos);
}

TEST_F(Worker, FailsWhereItsTrainingThreadDoesNotLetGo) {
  train();
  notice(1, messages::generation_change::ended);
  wait(timeouts.stall_timeout_ms / 1000.0 + 1);
  EXPECT_TRUE(did<effects::fail>());
}

/// Whatever comes in whatever order: it ends at most once, tells nobody anything while it is orphaned, and is a
/// function of what it was given.
TEST_F(Worker, HoldsItsOwnRulesUnderAnyEvents) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    worker_protocol one{{.timeouts = timeouts, .identity = {.host = "w1", .incarnation = 7}}};
    worker_protocol same = one;
    std::uint64_t state = seed;
    const auto draw = [&](std::uint64_t below) {
      state = state * 6364136223846793005 + 1442695040888963407;
      return (state >> 33) % below;
    };
    double seconds = 1;
    std::uint64_t ends = 0;
    std::uint64_t number = 0;
    for (int i = 0; i < 200; ++i) {
      const auto generation = 1 + draw(4);
      const messages::welcome welcome{.verdict = static_cast<welcome_verdict>(draw(3) == 0 ? 1 + draw(8) : 1),
                                      .term = draw(4)};
      const auto placement = std::make_shared<const messages::placement>(
          messages::placement{.generation = generation, .members = {0, 1}, .store_prefix = "test"});
      const std::vector<event> events = {
          events::connected{},
          events::disconnected{},
          events::aggregator_down{},
          events::greeting_due{},
          events::hello_answered{number, draw(4) == 0 ? std::nullopt : std::optional(welcome)},
          events::heartbeat_answered{draw(4) != 0, static_cast<std::uint32_t>(draw(3))},
          events::aggregator_settled{},
          events::farewell_answered{draw(2) == 0},
          events::decision_received{{.key = {draw(3), 1 + draw(5)}, .generation = generation, .batch = 64}},
          events::placement_received{placement, draw(2) == 0},
          events::notice_received{{generation, static_cast<messages::generation_change>(1 + draw(2)), "test"}},
          events::tick{},
          events::training_began{},
          events::window_completed{{.host = "w1", .generation = generation, .window = 1 + draw(5)}},
          events::evaluated{},
          events::generation_left{.goes_on = draw(8) != 0, .account = {.reason = "test", .decisions = {}}},
          draw(20) == 0 ? event(events::stop_requested{}) : event(events::tick{}),
          draw(20) == 0 ? event(events::leave_requested{}) : event(events::tick{})};
      const auto& next = events[draw(events.size())];
      seconds += static_cast<double>(draw(1000)) / 1000;
      const bool was_orphaned = one.orphaned();
      const auto effects = one.handle({seconds, static_cast<std::uint64_t>(i)}, next);
      const auto again = same.handle({seconds, static_cast<std::uint64_t>(i)}, next);
      ASSERT_EQ(effects.size(), again.size());
      bool aggregator = !was_orphaned;
      for (std::size_t at = 0; at < effects.size(); ++at) {
        ASSERT_EQ(effects[at].index(), again[at].index());
        const auto& effect = effects[at];
        if (const auto* said = std::get_if<effects::say_hello>(&effect))
          number = said->number;
        aggregator = std::holds_alternative<effects::follow_aggregator>(effect) ||
                     (aggregator && !std::holds_alternative<effects::forget_aggregator>(effect));
        ends += std::holds_alternative<effects::end>(effect) ? 1 : 0;
        const bool told = std::holds_alternative<effects::send_report>(effect) ||
                          std::holds_alternative<effects::send_heartbeat>(effect) ||
                          std::holds_alternative<effects::settle_aggregator>(effect) ||
                          std::holds_alternative<effects::say_farewell>(effect);
        ASSERT_TRUE(aggregator || !told) << "seed " << seed;
      }
      ASSERT_EQ(aggregator, !one.orphaned());
    }
    ASSERT_LE(ends, 1U) << "seed " << seed;
    ASSERT_EQ(ends == 1, one.now() == phase::ended) << "seed " << seed;
  }
}

} // namespace
} // namespace dynamix::session
