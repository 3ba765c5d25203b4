#include "actors/network/worker_names.hpp"
#include "cluster/places.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/actors/small_membership.hpp"

#include <gmock/gmock.h>
#include <spdlog/fmt/fmt.h>

namespace dynamix::actors {
namespace {

using messages::welcome_verdict;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Of ada, ben and cy, with places for two more.
cluster::cluster_file open_file(std::uint32_t workers_min) {
  auto file = testing::three_workers();
  file.membership = cluster::membership_kind::open;
  file.workers_min = workers_min;
  file.workers_max = 5;
  return cluster::with_places(file);
}

class OpenMembership : public testing::small_membership, public ::testing::Test {
protected:
  OpenMembership() { open(0); }

  void open(std::uint32_t workers_min) {
    file = open_file(workers_min);
    members = membership(file, timeouts);
  }
  /// This arbitrator has been there for so long that all who train have come.
  void grow_old() {
    for (const double end = now + timeouts.rejoin_timeout_ms / 1000.0 + 1; now < end;
         now += timeouts.beat_interval_ms / 1000.0)
      look();
  }
  /// Has left its generation in order.
  void send_away(const std::string& host) {
    members.departed({.host = host,
                      .rank = rank_of(host),
                      .reason = "left: its host was asked to end",
                      .decisions = {},
                      .end = messages::farewell_end::left},
                     now);
  }
};

TEST_F(OpenMembership, GivesHostsThatTheFileDoesNotNameTheRanksBehindItsOwn) {
  EXPECT_EQ(admit(hello("guest")).rank, 3U);
  EXPECT_EQ(admit(hello("ben")).rank, 1U);
  EXPECT_EQ(admit(hello("other")).rank, 4U);
  EXPECT_EQ(admit(hello("guest")).rank, 3U) << "it keeps it";
}

TEST_F(OpenMembership, LetsNobodyInWithoutAPlace) {
  admit(hello("guest"));
  admit(hello("other"));
  const auto refused = admit(hello("third"));
  EXPECT_EQ(refused.verdict, welcome_verdict::unknown_host);
  EXPECT_THAT(refused.detail, HasSubstr("all 2 places of the cluster are taken (cluster.workers_max is 5)"));
  EXPECT_EQ(admit(hello("other", 8)).verdict, welcome_verdict::duplicate_host) << "it is there already";
}

TEST_F(OpenMembership, LetsNoHostTakeMorePlacesThanItsShare) {
  file.host_places_max = 1;
  members = membership(file, timeouts);
  EXPECT_EQ(admit(hello("guest/0")).rank, 3U);
  EXPECT_EQ(admit(hello("guest/0")).rank, 3U) << "it keeps it";
  const auto refused = admit(hello("guest/1"));
  EXPECT_EQ(refused.verdict, welcome_verdict::unknown_host) << "it waits";
  EXPECT_THAT(refused.detail, HasSubstr("host guest has 1 of the cluster's places, and no host gets more "
                                        "(cluster.host_places_max is 1)"));
  EXPECT_EQ(admit(hello("other/0")).rank, 4U);
}

TEST_F(OpenMembership, TellsOneWithoutAPlaceThatTrainingIsOver) {
  start();
  admit(hello("guest"));
  admit(hello("other"));
  EXPECT_EQ(admit(hello("third")).verdict, welcome_verdict::unknown_host);
  depart("ada");
  EXPECT_EQ(admit(hello("third")).verdict, welcome_verdict::unknown_host) << "one that says so is not enough";
  depart("ben");
  const auto refused = admit(hello("third"));
  EXPECT_EQ(refused.verdict, welcome_verdict::generation_closed);
  EXPECT_THAT(refused.detail, HasSubstr("training is over (finished: ada and ben"));
}

TEST_F(OpenMembership, LetsNobodyInWhoseNameCouldBeNoHostsOrIsAPlaces) {
  for (const auto* name : {"+3", "two words", "../guest", "a\nb"})
    EXPECT_EQ(admit(hello(name)).verdict, welcome_verdict::unknown_host) << name;
}

TEST_F(OpenMembership, RefusesOneThatTrainsUnderARankThatNobodyGaveIt) {
  auto said = hello("guest");
  said.generation = 2;
  said.training = true;
  said.members = {0, 3};
  EXPECT_EQ(admit(said).verdict, welcome_verdict::unknown_host);
}

TEST_F(OpenMembership, BeginsWithTheHostsOfTheFileAndGrowsWithoutLosingAStep) {
  start();
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1, 2}));
  complete_steps(5);
  admit(hello("guest"));
  now += 1;
  formed.reset();
  look();
  EXPECT_EQ(members.state().phase, generation_phase::regrouping);
  EXPECT_EQ(members.state().reason, "guest joins");
  for (const auto* host : {"ada", "ben", "cy"})
    leave(host, 6, 6);
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(change.steps, 6U);
  EXPECT_EQ(change.steps_lost, 0U);
}

TEST_F(OpenMembership, BeginsWithAsManyAsAreAskedFor) {
  open(2);
  grow_old();
  admit(hello("guest"));
  look();
  EXPECT_FALSE(formed);
  EXPECT_EQ(members.missing(), 1U);
  admit(hello("cy"));
  look();
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{2, 3}));
  EXPECT_EQ(members.missing(), 0U);
}

/// Under a leader that begins anew when training is over for the others, who have ended.
TEST_F(OpenMembership, GoesOnWithFewerThanAreAskedForWhereTrainingHasBegunBefore) {
  file = open_file(3);
  members = membership(file, timeouts, 4, 2);
  look();
  admit(hello("ada", 9));
  admit(hello("ben", 9));
  keep_alive_for(timeouts.rejoin_timeout_ms / 1000.0 + 1);
  EXPECT_FALSE(formed) << "others may come";
  keep_alive_for(timeouts.join_timeout_ms / 1000.0);
  ASSERT_TRUE(formed);
  EXPECT_EQ(formed->members, (std::vector<std::uint32_t>{0, 1}));
}

TEST_F(OpenMembership, GivesOthersTimeToComeWhoMayTrainUnderAnArbitratorBeforeThisOne) {
  open(1);
  look();
  admit(hello("ada"));
  look();
  EXPECT_FALSE(formed);
  train("ben", 7, {1, 2}, 20, {});
  look();
  EXPECT_FALSE(formed && formed->generation == 1) << "a second training beside the first";
  EXPECT_EQ(members.generation(), 7U);
}

TEST_F(OpenMembership, IsOverWhenTheLastHaveLeftAndALostGuestIsForgotten) {
  start();
  admit(hello("guest"));
  members.disconnected(rank_of("guest"), "its connection broke", now);
  now += timeouts.stall_timeout_ms / 1000.0 + 1;
  for (const auto* host : {"ada", "ben", "cy"})
    send_away(host);
  EXPECT_EQ(members.over(now), "all workers have left or failed");
}

TEST_F(OpenMembership, OfListedHostsAloneBeginsWithAsManyAsAreAskedFor) {
  file = testing::three_workers();
  file.workers_min = 2;
  members = membership(file, timeouts);
  grow_old();
  admit(hello("ada"));
  look();
  EXPECT_FALSE(formed);
  admit(hello("cy"));
  look();
  EXPECT_TRUE(formed);
  EXPECT_EQ(admit(hello("guest")).verdict, welcome_verdict::unknown_host);
}

TEST_F(OpenMembership, KeepsARankForWhoReturnsAndGivesItAwayWhenItIsForgotten) {
  start();
  admit(hello("guest"));
  admit(hello("other"));
  send_away("guest");
  now += timeouts.stall_timeout_ms / 1000.0 - 1;
  EXPECT_EQ(admit(hello("third")).verdict, welcome_verdict::unknown_host) << "guest may return";
  EXPECT_EQ(admit(hello("guest", 8)).rank, 3U);
  send_away("guest");
  now += timeouts.stall_timeout_ms / 1000.0 + 1;
  EXPECT_EQ(admit(hello("third")).rank, 3U);
  EXPECT_EQ(admit(hello("guest", 9)).verdict, welcome_verdict::unknown_host);
  EXPECT_EQ(members.count(member_state::left), 0U);
}

TEST_F(OpenMembership, IsNotOverWhileOthersMayComeBeforeTrainingHasBegun) {
  open(4);
  for (const auto* host : {"ada", "ben", "cy"}) {
    admit(hello(host));
    send_away(host);
  }
  EXPECT_EQ(members.over(now), "");
}

TEST_F(OpenMembership, IsOverWhenAllThatTrainedHaveLeft) {
  start();
  for (const auto* host : {"ada", "ben", "cy"})
    send_away(host);
  EXPECT_EQ(members.over(now), "all workers have left or failed");
}

TEST_F(OpenMembership, TellsOfNobodyWhereNobodyHasBeen) {
  admit(hello("ada"));
  EXPECT_EQ(members.names(member_state::awaited), "ben and cy");
  EXPECT_EQ(members.count(member_state::awaited), 2U);
}

TEST(WorkerNames, AreFoundAgainByAnArbitratorThatBeginsAnew) {
  const temporary_directory directory;
  const auto path = directory.path() + "/places";
  const auto file = open_file(0);
  worker_names names(file, path);
  EXPECT_EQ(names.all(), (std::vector<std::string>{"ada", "ben", "cy", "", ""}));
  EXPECT_EQ(names.rank_of("guest"), std::nullopt);
  EXPECT_EQ(names.give(4, "guest"), "");
  EXPECT_EQ(names.give(0, "thief"), "");
  EXPECT_EQ(names.name_of(0), "ada") << "the file's hosts keep theirs";
  const worker_names again(file, path);
  EXPECT_EQ(again.rank_of("guest"), 4U);
  membership members(file, cluster::derive_timeouts(1000), 0, {}, again.all());
  EXPECT_EQ(members.names(member_state::awaited), "ada, ben, cy and guest");
}

TEST(WorkerNames, OfAnotherClusterFileOrOutOfItsPlacesAreNotTaken) {
  const temporary_directory directory;
  const auto path = directory.path() + "/places";
  auto other = testing::three_workers();
  other.seed = 2;
  other.membership = cluster::membership_kind::open;
  other.workers_max = 5;
  worker_names(cluster::with_places(other), path).give(4, "guest");
  EXPECT_EQ(worker_names(open_file(0), path).rank_of("guest"), std::nullopt);
  ASSERT_EQ(storage::write_file_atomically(
                path, fmt::format("places of {:016x}\n1 thief\n5 far\n3 ada\n4 guest\n", open_file(0).digest())),
            "");
  EXPECT_THAT(worker_names(open_file(0), path).all(), ElementsAre("ada", "ben", "cy", "", "guest"));
}

} // namespace
} // namespace dynamix::actors
