/// Generations of training processes whose group is their user's.

#include "cluster/places.hpp"
#include "tests/unit/actors/small_membership.hpp"

namespace dynamix::actors {
namespace {

class ClientMembership : public ::testing::Test, protected testing::small_membership {
protected:
  ClientMembership() {
    file.training.trainer = cluster::trainer_kind::client;
    members = membership(file, timeouts);
  }
};

TEST_F(ClientMembership, WaitsForAllHoweverLongThatTakes) {
  admit(hello("ada"));
  admit(hello("cy"));
  keep_alive_for(2 * timeouts.join_timeout_ms / 1000.0);
  EXPECT_FALSE(formed);
  EXPECT_EQ(members.over(now), "");
  admit(hello("ben"));
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members.size(), 3U);
}

TEST_F(ClientMembership, FormsTheNextGenerationOfAllOrNobody) {
  start();
  complete_steps(10);
  members.disconnected(1, "training process 7: it has ended", now);
  look();
  EXPECT_EQ(notices.size(), 2U);
  formed.reset();
  leave("ada", 10, 10);
  leave("cy", 10, 10);
  keep_alive_for(2 * timeouts.rejoin_timeout_ms / 1000.0);
  EXPECT_FALSE(formed);
  leave("ben", 4, 4); // from an older checkpoint
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->generation, 2U);
  EXPECT_EQ(formed->members.size(), 3U);
}

/// Of ada, ben and cy, with places for three more.
class OpenClientMembership : public ClientMembership {
protected:
  OpenClientMembership() {
    file.membership = cluster::membership_kind::open;
    file.workers_max = 6;
    file = cluster::with_places(file);
    members = membership(file, timeouts);
  }
  void come(const std::string& host, std::uint32_t group, std::uint64_t generation = 0) {
    auto said = hello(host);
    said.group = group;
    said.generation = generation;
    EXPECT_EQ(admit(said).verdict, messages::welcome_verdict::accepted) << host;
  }
};

TEST_F(OpenClientMembership, FormsAGenerationOnceAGroupIsWhole) {
  come("ada", 2);
  keep_alive_for(timeouts.join_timeout_ms / 1000.0);
  EXPECT_FALSE(formed);
  come("cy", 2);
  look();
  ASSERT_TRUE(formed) << "ben is of no group, and nobody waits for it";
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 2}));
}

TEST_F(OpenClientMembership, LeavesATrainingGroupAloneUntilALargerOneIsWhole) {
  come("ada", 2);
  come("ben", 2);
  look();
  ASSERT_TRUE(formed);
  formed.reset();
  notices.clear();
  come("guest", 3); // the others are still to be started again
  keep_alive_for(5);
  EXPECT_TRUE(notices.empty());
  for (const auto* host : {"ada", "ben"})
    members.disconnected(rank_of(host), "training process 7: it has ended", now);
  look();
  come("ada", 3, 1);
  keep_alive_for(1);
  EXPECT_FALSE(formed);
  come("ben", 3, 1);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1, 3}));
}

TEST_F(ClientMembership, GoesOnWithThoseWhoseGroupDoes) {
  const auto come = [&](const char* host, std::uint32_t group, bool training = false) {
    auto said = hello(host);
    said.group = group;
    said.generation = members.generation();
    said.training = training;
    if (training)
      said.members = members.state().placed;
    EXPECT_EQ(admit(said).verdict, messages::welcome_verdict::accepted) << host;
  };
  for (const auto* host : {"ada", "ben", "cy"})
    come(host, 3);
  look();
  ASSERT_TRUE(formed);
  members.disconnected(1, "its host is gone", now);
  look();
  formed.reset();
  come("ada", 3);
  come("cy", 3);
  keep_alive_for(2 * timeouts.rejoin_timeout_ms / 1000.0);
  EXPECT_FALSE(formed) << "its group waits for ben";
  come("ada", 2);
  come("cy", 2);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 2}));
  formed.reset();
  notices.clear();
  come("ben", 3);
  keep_alive_for(1);
  EXPECT_TRUE(notices.empty()) << "the others' groups are without it yet";
  come("ada", 3, true);
  come("cy", 3, true);
  keep_alive_for(1);
  EXPECT_EQ(notices.size(), 2U);
  come("ada", 3);
  come("cy", 3);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members.size(), 3U);
}

TEST_F(OpenClientMembership, GivesARankToAGuestWhoseProcessIsStillToCome) {
  auto said = hello("guest");
  said.reserves = true;
  EXPECT_EQ(admit(said).rank, 3U);
  come("ada", 1);
  look();
  ASSERT_TRUE(formed) << "nobody waits for it";
  said.reserves = false;
  said.group = 1;
  EXPECT_EQ(admit(said).rank, 3U);
}

TEST_F(ClientMembership, IsNotOverWhileNobodyTrains) {
  start();
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    members.disconnected(rank, "training process 7: it has ended", now);
  look();
  now += 2 * timeouts.join_timeout_ms / 1000.0;
  look();
  EXPECT_EQ(members.over(now), "");
}

TEST_F(ClientMembership, DoesNotJudgeHowLongAStepTakes) {
  start();
  complete_steps(10);
  notices.clear();
  keep_alive_for(3 * timeouts.stall_timeout_ms / 1000.0);
  EXPECT_TRUE(notices.empty());
  EXPECT_EQ(members.generation(), 1U);
}

} // namespace
} // namespace dynamix::actors
