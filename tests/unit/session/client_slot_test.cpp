#include "session/client_slot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace dynamix::session {
namespace {

namespace slot_effects = client_effects;
using messages::client_verdict;
using ::testing::HasSubstr;

/// The slot of host "w1", rank 1 of two workers.
class ClientSlot : public ::testing::Test {
protected:
  /// The effects of one kind since the last look at it; those of others stay.
  template <class T>
  std::vector<T> look() {
    for (auto& one : slot.take_effects())
      done.push_back(std::move(one));
    std::vector<T> found;
    std::erase_if(done, [&](const auto& one) {
      if (const auto* effect = std::get_if<T>(&one))
        found.push_back(*effect);
      return std::holds_alternative<T>(one);
    });
    return found;
  }
  template <class Message>
  std::vector<Message> sent_to(connection_number connection) {
    std::vector<Message> found;
    for (const auto& one : look<slot_effects::send>())
      if (const auto* message = std::get_if<Message>(&one.message); message != nullptr && one.connection == connection)
        found.push_back(*message);
    return found;
  }

  void connect(connection_number connection, int process = 100) {
    slot.connected(now, connection, {.process = process, .allowed = true});
  }
  messages::client_welcome greet(connection_number connection,
                                 messages::client_hello said = {.position = 1, .members = 2, .incarnation = 5}) {
    slot.received(connection, said);
    const auto answers = sent_to<messages::client_welcome>(connection);
    EXPECT_EQ(answers.size(), 1U);
    return answers.empty() ? messages::client_welcome{} : answers.front();
  }
  void beat(connection_number connection, std::uint64_t steps) {
    slot.received(connection, messages::heartbeat{.incarnation = 5, .steps = steps});
  }
  void make_ready(connection_number connection = 1, std::uint64_t steps = 0) {
    connect(connection);
    EXPECT_EQ(greet(connection).verdict, client_verdict::accepted);
    beat(connection, steps);
    EXPECT_EQ(look<slot_effects::ready>().size(), 1U);
  }
  messages::placement place(std::uint64_t generation) {
    messages::placement placement{.generation = generation, .members = {0, 1}, .store_prefix = "g"};
    slot.placed(placement);
    return placement;
  }

  double now = 10;
  std::vector<client_effect> done;
  client_slot slot{
      {.welcome = {.detail = {}, .host = "w1", .rank = 1, .workers = 2, .window_steps = 10}, .socket = "/run/0.sock"}};
};

TEST_F(ClientSlot, WelcomesAClientAndIsReadyAtItsFirstHeartbeat) {
  connect(1, 321);
  const auto welcome = greet(1);
  EXPECT_EQ(welcome.verdict, client_verdict::accepted);
  EXPECT_EQ(welcome.host, "w1");
  EXPECT_EQ(welcome.rank, 1U);
  EXPECT_EQ(look<slot_effects::follow>().at(0).process, 321);
  EXPECT_TRUE(look<slot_effects::ready>().empty());
  beat(1, 7);
  EXPECT_EQ(look<slot_effects::ready>().size(), 1U);
  EXPECT_EQ(look<slot_effects::progress>().at(0).steps, 7U);
  beat(1, 6);
  EXPECT_EQ(look<slot_effects::progress>().at(0).steps, 7U) << "steps do not fall within a client's life";
  EXPECT_TRUE(look<slot_effects::ready>().empty());
}

TEST_F(ClientSlot, RefusesASecondClientAndSaysWhoHasTheSlot) {
  make_ready();
  connect(2, 200);
  const auto answer = greet(2, {.position = 1, .members = 2, .incarnation = 6});
  EXPECT_EQ(answer.verdict, client_verdict::slot_taken);
  EXPECT_THAT(answer.detail, HasSubstr("training process 100 has the slot of host w1"));
  EXPECT_EQ(look<slot_effects::close>().at(0).connection, 2U);
  slot.disconnected(2, "it was closed");
  EXPECT_TRUE(look<slot_effects::lost>().empty());
  EXPECT_TRUE(slot.ready());
}

/// It took this agent for one that hangs, which reads on where it has stopped.
TEST_F(ClientSlot, TakesAClientThatHasConnectedAnewInPlaceOfItself) {
  make_ready(1, 3);
  place(1);
  connect(2);
  EXPECT_EQ(greet(2).verdict, client_verdict::accepted);
  EXPECT_THAT(look<slot_effects::lost>().at(0).reason, HasSubstr("it has connected anew"));
  EXPECT_EQ(look<slot_effects::left>().size(), 1U);
  EXPECT_EQ(look<slot_effects::close>().at(0).connection, 1U);
  slot.received(1, messages::window_report{.host = {}});
  beat(1, 4);
  slot.disconnected(1, "it was closed");
  EXPECT_FALSE(slot.ready());
  beat(2, 9);
  EXPECT_EQ(look<slot_effects::ready>().size(), 1U);
  EXPECT_TRUE(look<slot_effects::report>().empty());
  EXPECT_TRUE(look<slot_effects::lost>().empty());
  EXPECT_EQ(slot.steps(), 9U);
  place(2);
  EXPECT_EQ(sent_to<messages::placement>(2).at(0).generation, 2U);
}

TEST_F(ClientSlot, OfAnOpenClusterTakesAGroupOfAnySizeUpToItsWorkers) {
  auto welcome = messages::client_welcome{.detail = {}, .host = "guest", .rank = 3, .workers = 4};
  welcome.window_steps = 10;
  welcome.settle_steps = 2;
  welcome.lowest_batch = 32;
  welcome.highest_batch = 256;
  slot = client_slot({.welcome = welcome, .socket = "guest.sock", .open = true});
  connect(1);
  EXPECT_EQ(greet(1).rank, 3U) << "of a group of two";
  beat(1, 0);
  const auto ready = look<slot_effects::ready>();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].members, 2U);
  connect(2);
  EXPECT_THAT(greet(2, {.members = 5, .incarnation = 5}).detail, HasSubstr("at most 4 workers"));
}

TEST_F(ClientSlot, RefusesAnotherVersionAnotherSizeAndAnotherUser) {
  connect(1);
  const auto old = greet(1, {.protocol = messages::newest_protocol + 1, .members = 2, .incarnation = 5});
  EXPECT_EQ(old.verdict, client_verdict::protocol_mismatch);
  EXPECT_THAT(old.detail, HasSubstr("the training process speaks protocol 7, the agent of host w1 protocol 6"));
  EXPECT_THAT(old.detail, HasSubstr("install the same release, or two with a protocol in common"));
  connect(2);
  const auto other = greet(2, {.members = 3, .incarnation = 5});
  EXPECT_EQ(other.verdict, client_verdict::not_served);
  EXPECT_THAT(other.detail, HasSubstr("this training has 3 processes, and the cluster file has 2 workers"));
  look<slot_effects::close>();
  slot.connected(now, 3, {.process = 9, .allowed = false});
  EXPECT_EQ(look<slot_effects::close>().size(), 1U);
  slot.received(3, messages::client_hello{.members = 2, .incarnation = 5});
  EXPECT_TRUE(look<slot_effects::send>().empty());
}

TEST_F(ClientSlot, EndsTheConnectionOfWhoeverSpeaksOutOfTurn) {
  connect(1);
  beat(1, 0);
  EXPECT_EQ(look<slot_effects::close>().size(), 1U);
  connect(2);
  slot.received(2, messages::window_report{.host = {}});
  EXPECT_EQ(look<slot_effects::close>().size(), 1U);
  connect(4);
  slot.received(4, messages::evaluation_report{});
  EXPECT_EQ(look<slot_effects::close>().size(), 1U);
  EXPECT_TRUE(look<slot_effects::lost>().empty()) << "it never was ready";
  make_ready(3);
  slot.received(3, messages::client_hello{.members = 3, .incarnation = 5});
  EXPECT_EQ(look<slot_effects::lost>().size(), 1U);
  beat(3, 9);
  EXPECT_TRUE(look<slot_effects::progress>().size() == 1U) << "of its first heartbeat; nothing is heard behind the end";
}

/// A model is evaluated before its training, and an agent that was restarted is told a window that it did not see.
TEST_F(ClientSlot, KeepsAClientThatEvaluatesOrReportsBeforeItsFirstHeartbeat) {
  connect(1);
  greet(1);
  slot.received(1, messages::evaluation_report{.test_accuracy = 0.1});
  slot.received(1, messages::window_report{.host = {}});
  EXPECT_TRUE(look<slot_effects::close>().empty());
  EXPECT_EQ(look<slot_effects::evaluated>().at(0).report.test_accuracy, 0.1);
  EXPECT_TRUE(look<slot_effects::report>().empty());
  beat(1, 0);
  EXPECT_EQ(look<slot_effects::ready>().size(), 1U);
}

TEST_F(ClientSlot, IsReadyAgainWithEachSizeOfAGroupThatIsFormedAnew) {
  make_ready();
  place(1);
  const auto regroup = [&](std::uint32_t present) {
    slot.received(1, messages::client_hello{.members = present, .incarnation = 5});
    return look<slot_effects::ready>();
  };
  ASSERT_EQ(regroup(1).size(), 1U);
  EXPECT_TRUE(regroup(1).empty()) << "it is known";
  const auto whole = regroup(2);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].members, 2U);
  EXPECT_TRUE(look<slot_effects::left>().empty()) << "whether its generation goes on is the arbitrator's affair";
  EXPECT_TRUE(look<slot_effects::close>().empty());
}

TEST_F(ClientSlot, TakesTheSizeOfAGroupBeforeItsClientIsReady) {
  connect(1);
  greet(1);
  slot.received(1, messages::client_hello{.members = 1, .incarnation = 5});
  EXPECT_TRUE(look<slot_effects::ready>().empty());
  beat(1, 0);
  EXPECT_EQ(look<slot_effects::ready>().at(0).members, 1U);
}

TEST_F(ClientSlot, EndsConnectionsThatSayNothingOrTooMuch) {
  connect(1);
  now += 6;
  slot.tick(now);
  EXPECT_EQ(look<slot_effects::close>().at(0).connection, 1U);
  make_ready(2);
  for (int i = 0; i < 3000; ++i)
    beat(2, 1);
  EXPECT_EQ(look<slot_effects::close>().at(0).connection, 2U);
  EXPECT_THAT(look<slot_effects::lost>().at(0).reason, HasSubstr("messages per second"));
}

TEST_F(ClientSlot, PassesPlacesAndDecisionsOfTheGenerationOn) {
  make_ready();
  EXPECT_EQ((place(1), sent_to<messages::placement>(1).at(0).generation), 1U);
  slot.decided({.key = {1, 1}, .generation = 1, .rank = 1, .batch = 96});
  slot.decided({.key = {1, 2}, .generation = 2, .rank = 1, .batch = 96});
  const auto decided = sent_to<messages::decision>(1);
  ASSERT_EQ(decided.size(), 1U);
  EXPECT_EQ(decided[0].batch, 96U);
}

TEST_F(ClientSlot, FillsInWhatOnlyTheAgentKnowsOfAReport) {
  make_ready();
  slot.received(1, messages::window_report{.host = "a lie", .rank = 9, .generation = 1, .window = 1});
  EXPECT_TRUE(look<slot_effects::report>().empty()) << "between two generations nobody gathers it";
  place(4);
  messages::window_report said{.host = "a lie", .rank = 9, .generation = 1, .window = 2, .batch = 64};
  said.network.valid = true;
  slot.received(1, said);
  const auto reports = look<slot_effects::report>();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].report.host, "w1");
  EXPECT_EQ(reports[0].report.rank, 1U);
  EXPECT_EQ(reports[0].report.generation, 4U);
  EXPECT_EQ(reports[0].report.batch, 64U);
  EXPECT_FALSE(reports[0].report.network.valid);
}

TEST_F(ClientSlot, LeavesItsGenerationWithTheClientAndTakesTheNextOne) {
  make_ready(1, 50);
  place(1);
  slot.disconnected(1, "it has ended");
  EXPECT_EQ(look<slot_effects::lost>().at(0).reason, "training process 100: it has ended");
  EXPECT_EQ(look<slot_effects::left>().size(), 1U);
  EXPECT_EQ(look<slot_effects::follow>().back().process, 0);
  place(2); // formed before the arbitrator heard of it
  EXPECT_EQ(look<slot_effects::left>().size(), 1U);
  make_ready(2, 40);
  EXPECT_EQ(slot.steps(), 40U) << "it goes on from an older checkpoint";
}

TEST_F(ClientSlot, LeavesAGenerationAtOnceAndKeepsTheClient) {
  make_ready();
  place(1);
  look<slot_effects::send>();
  slot.leave("w0 is lost");
  EXPECT_EQ(look<slot_effects::left>().size(), 1U);
  EXPECT_TRUE(look<slot_effects::close>().empty());
  slot.leave("again");
  EXPECT_TRUE(look<slot_effects::left>().empty());
  EXPECT_EQ((place(2), sent_to<messages::placement>(1).size()), 1U);
}

TEST_F(ClientSlot, AsksEveryClientToStopOnceAStopWasAskedFor) {
  make_ready();
  slot.stop("enough");
  EXPECT_EQ(sent_to<messages::client_notice>(1).at(0).reason, "enough");
  slot.disconnected(1, "it has ended");
  connect(2);
  slot.received(2, messages::client_hello{.position = 1, .members = 2, .incarnation = 6});
  EXPECT_EQ(sent_to<messages::client_notice>(2).size(), 1U);
}

TEST_F(ClientSlot, EndsWithAGoodFarewellAndWaitsForAnotherClientAfterABadOne) {
  make_ready();
  place(1);
  slot.received(1, messages::farewell{.host = {}, .succeeded = false, .reason = "out of memory", .decisions = {}});
  EXPECT_THAT(look<slot_effects::lost>().at(0).reason, HasSubstr("out of memory"));
  EXPECT_EQ(look<slot_effects::left>().size(), 1U);
  EXPECT_TRUE(look<slot_effects::finished>().empty());
  slot.disconnected(1, "it was closed");
  make_ready(2);
  place(2);
  slot.received(2, messages::farewell{.host = {}, .succeeded = true, .reason = "", .steps = 90, .decisions = {}});
  const auto finished = look<slot_effects::finished>();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].farewell.host, "w1");
  EXPECT_EQ(slot.steps(), 90U);
  slot.disconnected(2, "it was closed");
  EXPECT_TRUE(look<slot_effects::lost>().empty());
  connect(3);
  EXPECT_EQ(greet(3).verdict, client_verdict::not_served);
}

TEST_F(ClientSlot, SaysEveryHalfMinuteThatItWaits) {
  slot.tick(now);
  EXPECT_THAT(look<slot_effects::log>().at(0).text, HasSubstr("waiting for the training process at /run/0.sock"));
  slot.tick(now += 29);
  EXPECT_TRUE(look<slot_effects::log>().empty());
  slot.tick(now += 2);
  EXPECT_EQ(look<slot_effects::log>().size(), 1U);
  make_ready();
  look<slot_effects::log>();
  slot.tick(now += 100);
  EXPECT_TRUE(look<slot_effects::log>().empty());
}

} // namespace
} // namespace dynamix::session
