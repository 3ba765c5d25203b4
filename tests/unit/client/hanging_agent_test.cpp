// What a training process makes of an agent that keeps its connection open and reads nothing from it.

#include "tests/unit/client/agent_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

namespace dynamix::client {
namespace {

using testing::HasSubstr;

/// Five seconds, as of the clock that a user's training has.
TEST_F(AgentTraining, TakesDecisionsForTheOthersWhileAnAgentHangs) {
  std::optional<messages::client_hello> smaller;
  for (int i = 0; i < 400 && !smaller; ++i) {
    training_->train(1);
    smaller = agents_[0]->read_a<messages::client_hello>(50); // which takes what it is sent
  }
  ASSERT_TRUE(smaller);
  EXPECT_EQ(smaller->members, 1U);
  EXPECT_EQ(training_->status(0).connected, 1U);
  EXPECT_EQ(training_->status(1).connected, 0U);
  EXPECT_THAT(training_->notices(1), testing::Contains(HasSubstr("it has taken nothing for 5 s")));
  EXPECT_THAT(training_->notices(0), testing::Contains(HasSubstr("warning: the agent of member 1 is gone")));
  decide(0, 1, 24, training_->status(0).step);
  training_->train(2);
  EXPECT_THAT(training_->own(), testing::ElementsAre(24, 16));
}

/// It answers no more, and reads all when it goes on.
TEST_F(AgentTraining, TellsAnAgentThatHangsOfTheEnd) {
  agents_[1]->hang_up();
  for (int i = 0; i < 60; ++i) {
    training_->train(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  EXPECT_GOOD(training_->run(1), dynamix_finish(training_->run(1), 1, "done"));
  ASSERT_TRUE(agents_[1]->accept());
  const auto hello = agents_[1]->read();
  const auto beat = agents_[1]->read();
  const auto farewell = agents_[1]->read();
  ASSERT_TRUE(hello && beat && farewell);
  EXPECT_TRUE(std::holds_alternative<messages::client_hello>(*hello));
  ASSERT_TRUE(std::holds_alternative<messages::heartbeat>(*beat)) << "nobody gathers the reports of a time between";
  EXPECT_EQ(std::get<messages::heartbeat>(*beat).steps, 60U);
  ASSERT_TRUE(std::holds_alternative<messages::farewell>(*farewell));
  EXPECT_EQ(std::get<messages::farewell>(*farewell).steps, 60U);
}

} // namespace
} // namespace dynamix::client
