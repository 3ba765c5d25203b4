// The connection to an agent that hangs, in virtual time, with an agent at the other end of a real socket.

#include "client/agent_link.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/client/scripted_agent.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <utility>

namespace dynamix::client {
namespace {

using testing::HasSubstr;

/// A connection whose agent has welcomed it.
class AgentLink : public testing::Test {
protected:
  void SetUp() override {
    auto opening = std::async(std::launch::async, [&] {
      messages::client_welcome welcome;
      return link_.open(scripted_agent::patience_ms, welcome);
    });
    ASSERT_TRUE(agent_.accept());
    agent_.send(welcome_example());
    ASSERT_EQ(opening.get(), "");
    ASSERT_TRUE(agent_.read_a<messages::client_hello>());
    link_.take_news();
  }

  void send() { link_.send(messages::heartbeat{.incarnation = 5, .steps = ++steps_}); }
  void pump(double seconds) {
    now_ += seconds;
    link_.pump(now_, [](messages::any_message&) {});
  }

  temporary_directory directory_;
  scripted_agent agent_{directory_.path() + "/0.sock"};
  agent_link link_{directory_.path() + "/0.sock", {.members = 2, .incarnation = 5}};
  double now_ = 1000;
  std::uint64_t steps_ = 0;
};

TEST_F(AgentLink, GivesUpAnAgentThatHangsAndIsWelcomedByItOnceItGoesOn) {
  for (int i = 0; i < 4; ++i) {
    send();
    pump(1);
    ASSERT_TRUE(link_.connected()) << i;
  }
  pump(2.5);
  EXPECT_FALSE(link_.connected());
  EXPECT_THAT(link_.take_news(), HasSubstr("it has taken nothing for 5 s; training goes on"));
  pump(1.5);
  EXPECT_FALSE(link_.connected()) << "it is called, and does not answer";
  pump(600);
  pump(600);
  EXPECT_EQ(link_.take_news(), "");
  for (std::uint64_t i = 1; i <= 4; ++i)
    EXPECT_EQ(agent_.read_a<messages::heartbeat>()->steps, i);
  EXPECT_FALSE(agent_.read()) << "the former connection has ended";
  agent_.hang_up();
  ASSERT_TRUE(agent_.accept());
  EXPECT_EQ(agent_.read_a<messages::client_hello>()->incarnation, 5U);
  agent_.send(welcome_example());
  pump(0.1);
  EXPECT_TRUE(link_.connected());
  send();
  pump(10);
  EXPECT_TRUE(link_.connected());
  EXPECT_FALSE(agent_.accept(0)) << "it was called once";
}

TEST_F(AgentLink, KeepsAnAgentThatIsBehindByOneMessage) {
  send();
  for (int i = 0; i < 20; ++i) {
    send();
    pump(1); // and as much lies there as before
    ASSERT_TRUE(link_.connected()) << i;
    ASSERT_TRUE(agent_.read_a<messages::heartbeat>());
  }
}

TEST_F(AgentLink, KeepsAnAgentThatReadsLateAndOneThatIsSentNothing) {
  for (int i = 0; i < 10; ++i) {
    send();
    pump(2);
    ASSERT_TRUE(agent_.read_a<messages::heartbeat>());
    pump(2);
  }
  pump(2);
  pump(600);
  pump(600);
  pump(600);
  EXPECT_TRUE(link_.connected());
}

} // namespace
} // namespace dynamix::client
