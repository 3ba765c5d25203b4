#include "actors/membership.hpp"

#include <gtest/gtest.h>

namespace dynamix::actors {
namespace {

using messages::welcome_verdict;

cluster::cluster_file three_workers() {
  cluster::cluster_file file;
  file.name = "test";
  file.hosts = {{.name = "north", .port = 1, .roles = {cluster::role::arbitrator}},
                {.name = "ada", .port = 2},
                {.name = "ben", .port = 3},
                {.name = "cy", .port = 4}};
  return file;
}

class Membership : public ::testing::Test {
protected:
  cluster::cluster_file file = three_workers();
  membership members{file, 1000, 1};

  messages::hello hello(const std::string& host, std::uint64_t incarnation = 7) const {
    messages::hello said;
    said.cluster = "test";
    said.cluster_digest = file.digest();
    said.host = host;
    said.incarnation = incarnation;
    said.heartbeat_interval_ms = 1000;
    return said;
  }
  welcome_verdict verdict(messages::hello said) { return members.admit(said).verdict; }
};

TEST_F(Membership, RanksAreTheWorkersPositionsWhateverTheOrderOfArrival) {
  EXPECT_EQ(members.admit(hello("cy")).rank, 2U);
  EXPECT_EQ(members.admit(hello("ada")).rank, 0U);
  const auto welcome = members.admit(hello("ben"));
  EXPECT_EQ(welcome.rank, 1U);
  EXPECT_EQ(welcome.world_size, 3U);
  EXPECT_EQ(members.awaited(), 0U);
}

TEST_F(Membership, RefusesWhoDoesNotFitAndSaysWhy) {
  auto said = hello("ada");
  said.protocol = 99;
  EXPECT_EQ(verdict(said), welcome_verdict::protocol_mismatch);
  said = hello("ada");
  said.cluster = "other";
  EXPECT_EQ(verdict(said), welcome_verdict::cluster_mismatch);
  said = hello("ada");
  ++said.cluster_digest;
  EXPECT_EQ(verdict(said), welcome_verdict::cluster_mismatch);
  EXPECT_EQ(verdict(hello("nobody")), welcome_verdict::unknown_host);
  EXPECT_EQ(verdict(hello("north")), welcome_verdict::unknown_host) << "a host without a worker";
  said = hello("ada");
  said.heartbeat_interval_ms = 5000;
  EXPECT_EQ(verdict(said), welcome_verdict::heartbeat_mismatch);
  EXPECT_NE(members.admit(said).detail.find("5000 ms"), std::string::npos);
  EXPECT_EQ(members.awaited(), 3U) << "nobody of these was taken in";
}

TEST_F(Membership, RefusesASecondProcessOfTheSameNameButNotAReconnect) {
  EXPECT_EQ(verdict(hello("ada", 7)), welcome_verdict::accepted);
  EXPECT_EQ(verdict(hello("ada", 8)), welcome_verdict::duplicate_host);
  EXPECT_EQ(verdict(hello("ada", 7)), welcome_verdict::accepted);
}

TEST_F(Membership, ALostWorkerClosesTheGeneration) {
  members.admit(hello("ada"));
  EXPECT_TRUE(members.lost(0));
  EXPECT_TRUE(members.closed());
  const auto late = members.admit(hello("ben"));
  EXPECT_EQ(late.verdict, welcome_verdict::generation_closed);
  EXPECT_NE(late.detail.find("lost: ada"), std::string::npos) << late.detail;
  EXPECT_EQ(verdict(hello("ada", 8)), welcome_verdict::generation_closed) << "a new process has not its parameters";
  EXPECT_TRUE(members.over()) << "nobody is present, and nobody is awaited any more";
}

TEST_F(Membership, AWorkerWhoseConnectionAloneBrokeMayComeBack) {
  members.admit(hello("ada"));
  members.lost(0);
  EXPECT_EQ(verdict(hello("ada")), welcome_verdict::accepted);
  EXPECT_FALSE(members.closed());
  EXPECT_FALSE(members.over());
  EXPECT_EQ(verdict(hello("ben")), welcome_verdict::accepted);
}

TEST_F(Membership, IsOverWhenAllHaveSaidFarewell) {
  for (const auto* host : {"ada", "ben", "cy"})
    members.admit(hello(host));
  EXPECT_TRUE(members.departed(0, true));
  EXPECT_FALSE(members.departed(0, true)) << "once";
  EXPECT_TRUE(members.departed(1, true));
  EXPECT_FALSE(members.over());
  EXPECT_TRUE(members.departed(2, true));
  EXPECT_TRUE(members.over());
  EXPECT_FALSE(members.closed());
}

TEST_F(Membership, IsOverWhenAWorkerNeverCameAndTheOthersHaveFailed) {
  members.admit(hello("ada"));
  members.admit(hello("ben"));
  members.departed(0, false);
  EXPECT_TRUE(members.closed());
  EXPECT_EQ(verdict(hello("cy")), welcome_verdict::generation_closed) << "it would wait for those that have gone";
  EXPECT_FALSE(members.over());
  members.departed(1, false);
  EXPECT_TRUE(members.over());
}

TEST_F(Membership, ANewArbitratorTakesARunningGenerationOver) {
  auto said = hello("ben");
  said.generation = 4;
  said.last_decision = {.term = 9, .window = 120};
  const auto welcome = members.admit(said);
  EXPECT_EQ(welcome.verdict, welcome_verdict::accepted);
  EXPECT_EQ(welcome.generation, 4U);
  EXPECT_EQ(members.highest_term(), 9U);
}

TEST_F(Membership, NamesPeopleInPlainWords) {
  EXPECT_EQ(members.names(member_state::awaited), "ada, ben and cy");
  members.admit(hello("ben"));
  EXPECT_EQ(members.names(member_state::awaited), "ada and cy");
  EXPECT_EQ(members.names(member_state::present), "ben");
  EXPECT_EQ(members.names(member_state::lost), "nobody");
}

} // namespace
} // namespace dynamix::actors
