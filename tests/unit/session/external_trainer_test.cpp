#include "tests/unit/session/tested_worker.hpp"

namespace dynamix::session {
namespace {

using testing::phase;
using testing::Worker;

/// The same worker, for which another process trains.
class ExternallyTrainedWorker : public Worker {
protected:
  ExternallyTrainedWorker() {
    protocol = worker_protocol{{.timeouts = timeouts,
                                .external_trainer = true,
                                .identity = {.cluster = "tested", .host = "w1", .incarnation = 7}}};
  }
};

TEST_F(ExternallyTrainedWorker, SaysHelloOnlyOnceItsTrainerIsReady) {
  happen(events::connected{});
  happen(events::greeting_due{});
  EXPECT_TRUE(done.empty());
  steps = 120; // of a checkpoint
  happen(events::trainer_ready{});
  ASSERT_TRUE(did<effects::say_hello>());
  answer({.term = 1, .rank = 1});
  EXPECT_TRUE(did<effects::join>());
}

TEST_F(ExternallyTrainedWorker, OfAGuestAsksForItsRankBeforeItsTrainerComes) {
  protocol = worker_protocol{{.timeouts = timeouts,
                              .external_trainer = true,
                              .guest = true,
                              .identity = {.cluster = "tested", .host = "guest", .incarnation = 7}}};
  happen(events::connected{});
  EXPECT_TRUE(hello.hello.reserves);
  answer({.term = 1, .rank = 4});
  EXPECT_TRUE(did<effects::join>()) << "it can tell its trainer";
  place(1);
  EXPECT_EQ(protocol.now(), phase::waiting) << "nobody trains";
  happen(events::trainer_ready{.group = 5});
  EXPECT_FALSE(hello.hello.reserves);
  EXPECT_EQ(hello.hello.group, 5U);
}

TEST_F(ExternallyTrainedWorker, IsAbsentWithoutItsTrainerAndComesBackWithTheNext) {
  happen(events::trainer_ready{});
  train();
  steps = 50;
  happen(events::trainer_lost{"it has ended"});
  const auto absent = look<effects::send_absence>();
  ASSERT_EQ(absent.size(), 1U);
  EXPECT_EQ(absent[0].absence.rank, 1U);
  EXPECT_EQ(absent[0].absence.incarnation, 7U);
  EXPECT_EQ(absent[0].absence.detail, "it has ended");
  leave_generation();
  EXPECT_EQ(protocol.now(), phase::waiting);
  wait(5);
  notice(1, messages::generation_change::ended);
  place(2);
  EXPECT_EQ(protocol.now(), phase::waiting);
  EXPECT_FALSE(did<effects::say_hello>()) << "nor does a sign of life say that it is there";
  steps = 40;
  happen(events::trainer_ready{});
  EXPECT_EQ(hello.hello.steps, 40U);
  EXPECT_FALSE(hello.hello.training);
  answer({.term = 1, .rank = 1});
  place(2);
  EXPECT_EQ(protocol.now(), phase::training);
}

/// Its agent hung, and learns at once that it is lost and that it has ended.
TEST_F(ExternallyTrainedWorker, EndsOnceWhereItsTrainerEndsAsSoonAsItIsLost) {
  happen(events::trainer_ready{});
  train();
  steps = 50;
  happen(events::trainer_lost{"it has connected anew"});
  complete_training();
  EXPECT_EQ(protocol.now(), phase::leaving);
  done.clear();
  happen(events::trainer_ready{});
  complete_training();
  EXPECT_TRUE(done.empty()) << "it looks for an arbitrator already";
  answer({.term = 1, .rank = 1});
  happen(events::aggregator_settled{});
  EXPECT_EQ(look<effects::say_farewell>().size(), 1U);
  happen(events::farewell_answered{true});
  const auto ended = look<effects::end>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_TRUE(ended[0].succeeded);
}

TEST_F(ExternallyTrainedWorker, TakesAHelloBackThatItsTrainerDidNotOutlive) {
  happen(events::connected{});
  happen(events::trainer_ready{});
  happen(events::trainer_lost{"it has ended"});
  EXPECT_FALSE(did<effects::send_absence>()) << "nobody has taken it in yet";
  answer({.term = 1, .rank = 1});
  EXPECT_EQ(look<effects::send_absence>().size(), 1U);
  EXPECT_TRUE(protocol.orphaned());
}

TEST_F(ExternallyTrainedWorker, SaysWhenTheGroupOfItsTrainerIsFormedAnew) {
  happen(events::trainer_ready{.group = 3});
  train();
  leave_generation();
  answer({.term = 1, .rank = 1});
  done.clear();
  happen(events::trainer_ready{.group = 2});
  ASSERT_TRUE(did<effects::say_hello>());
  EXPECT_EQ(hello.hello.group, 2U);
  happen(events::trainer_ready{.group = 1});
  EXPECT_FALSE(did<effects::say_hello>()) << "one at a time";
  answer({.term = 1, .rank = 1});
  ASSERT_TRUE(did<effects::say_hello>());
  EXPECT_EQ(hello.hello.group, 1U);
  answer({.term = 1, .rank = 1});
  place(2, {1});
  ASSERT_EQ(protocol.now(), phase::training);
  happen(events::trainer_ready{.group = 3});
  ASSERT_TRUE(did<effects::say_hello>());
  EXPECT_EQ(hello.hello.group, 3U);
  EXPECT_TRUE(hello.hello.training) << "its generation goes on until the others are there";
  answer({.term = 1, .rank = 1});
  EXPECT_FALSE(did<effects::say_hello>());
}

TEST_F(ExternallyTrainedWorker, IsNeverTakenForStuckOrCutOff) {
  happen(events::trainer_ready{});
  train();
  happen(events::disconnected{});
  done.clear();
  wait(3600);
  EXPECT_FALSE(did<effects::interrupt>()) << "a validation may take an hour";
}

TEST_F(ExternallyTrainedWorker, EndsWithoutATrainerWhenItIsAskedToStop) {
  happen(events::trainer_ready{});
  train();
  happen(events::trainer_lost{"it has ended"});
  leave_generation();
  happen(events::stop_requested{});
  EXPECT_EQ(look<effects::finish_training>().size(), 1U);
  end_after_checkpoint("stopped");
  const auto ended = look<effects::end>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_FALSE(ended[0].succeeded);
}

} // namespace
} // namespace dynamix::session
