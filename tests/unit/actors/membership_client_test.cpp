/// Generations of training processes whose group is their user's.

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
