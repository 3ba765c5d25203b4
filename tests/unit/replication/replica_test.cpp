// Voters as processes on loopback: elections, restarts, and what their directories may suffer. Whatever it is, every
// window that was acknowledged is on all voters in the end, once.

#include "replication/replica_core.hpp"
#include "tests/unit/replication/replica_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>

namespace dynamix::replication {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

class ReplicaTest : public testing::Test {
protected:
  static void decide(replica_cluster& cluster, int count) {
    for (; count > 0 && !HasFailure(); --count)
      cluster.decide();
  }
  static void begin(replica_cluster& cluster) {
    cluster.start_all();
    ASSERT_TRUE(cluster.wait_for_calm());
    cluster.begin();
  }
  /// A running voter that does not lead.
  static std::size_t follower(replica_cluster& cluster, std::size_t but = 0) {
    const auto leader = cluster.wait_for_leader();
    for (std::size_t voter = 1; voter <= cluster.size(); ++voter)
      if (voter != leader && voter != but && cluster[voter].running())
        return voter;
    return 0;
  }
  static std::size_t files(const std::string& directory, const std::string& prefix) {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(directory))
      count += entry.path().filename().string().starts_with(prefix) ? 1 : 0;
    return count;
  }
};

TEST_F(ReplicaTest, ElectsOneLeaderAmongThreeAndTellsFollowersWhoItIs) {
  replica_cluster cluster(3, 5000); // a busy machine is no reason to elect another
  begin(cluster);
  const auto leader = cluster.wait_for_leader();
  const auto other = follower(cluster);
  EXPECT_EQ(cluster[other].leader, leader);
  EXPECT_EQ(cluster[other].role, "follower");
  cluster.send(other, "decide 2 1 1 1");
  EXPECT_TRUE(cluster.wait([&] { return cluster[other].done.contains({2, 1}); }));
  EXPECT_EQ((cluster[other].done[{2, 1}].status), "not-leader");
  decide(cluster, 3);
  cluster.send(leader, "read");
  EXPECT_TRUE(cluster.wait([&] { return cluster[leader].read.has_value(); }));
  EXPECT_EQ(cluster[leader].read->first, "committed");
  EXPECT_EQ(cluster[leader].read->second.windows_decided, 3U);
  cluster.send(other, "read");
  EXPECT_TRUE(cluster.wait([&] { return cluster[other].read.has_value(); }));
  EXPECT_EQ(cluster[other].read->first, "not-leader");
  EXPECT_EQ(cluster.check_all_equal(), "");
}

TEST_F(ReplicaTest, ReplacesADeadLeaderBeforeItsHeartbeatsAreMissed) {
  constexpr std::uint32_t detect_ms = 5000;
  replica_cluster cluster(3, detect_ms);
  begin(cluster);
  std::vector<std::chrono::steady_clock::duration> gaps; // a busy machine may hold up one or two of them
  for (int kill = 0; kill < 5; ++kill) {
    const auto leader = cluster.wait_for_leader();
    cluster.kill(leader);
    const auto dead_since = std::chrono::steady_clock::now();
    decide(cluster, 1);
    gaps.push_back(std::chrono::steady_clock::now() - dead_since);
    cluster.start(leader);
    EXPECT_TRUE(cluster.wait_for_calm());
  }
  std::ranges::sort(gaps);
  EXPECT_LT(gaps[gaps.size() / 2], std::chrono::milliseconds(time_outs_of(detect_ms).election_ms * 3 / 4));
  EXPECT_EQ(cluster.check_all_equal(), "");
}

TEST_F(ReplicaTest, LetsTheVotersThatAreLeftStandOneAfterTheOther) {
  const auto from = time_outs_of(500);
  const std::vector<voter> voters = {{1, "a:1"}, {2, "b:1"}, {3, "c:1"}, {4, "d:1"}, {5, "e:1"}};
  EXPECT_EQ(standing_delay_ms(voters, 1, 3, from), 0U);
  EXPECT_EQ(standing_delay_ms(voters, 2, 3, from), 3 * from.heartbeat_ms);
  EXPECT_EQ(standing_delay_ms(voters, 4, 3, from), 6 * from.heartbeat_ms);
  EXPECT_EQ(standing_delay_ms(voters, 2, 1, from), 0U);
  EXPECT_LT(standing_delay_ms(voters, 5, 1, from), from.election_ms); // the least that libraft draws
}

TEST_F(ReplicaTest, GoesOnWithThreeOfFive) {
  replica_cluster cluster(5, 500);
  begin(cluster);
  decide(cluster, 5);
  cluster.kill(cluster.wait_for_leader());
  decide(cluster, 5);
  cluster.kill(cluster.wait_for_leader());
  decide(cluster, 5);
  for (std::size_t voter = 1; voter <= 5; ++voter)
    if (!cluster[voter].running())
      cluster.start(voter);
  EXPECT_EQ(cluster.check_all_equal(), "");
}

TEST_F(ReplicaTest, NeedsNobodyWhenItIsAlone) {
  replica_cluster cluster(1, 500);
  begin(cluster);
  decide(cluster, 5);
  cluster.kill(1);
  cluster.start(1);
  decide(cluster, 5);
  EXPECT_EQ(cluster.check_all_equal(), "");
}

TEST_F(ReplicaTest, RestartsFromSnapshots) {
  replica_cluster cluster(3, 500, 32);
  begin(cluster);
  decide(cluster, 150);
  EXPECT_EQ(cluster.check_all_equal(), "");
  for (std::size_t voter = 1; voter <= 3; ++voter) {
    EXPECT_EQ(cluster.stop(voter), 0);
    EXPECT_GT(files(cluster.directory(voter), "snapshot-"), 0U);
  }
  cluster.start_all();
  EXPECT_EQ(cluster.check_all_equal(), "");
  decide(cluster, 5);
  EXPECT_EQ(cluster.check_all_equal(), "");
}

TEST_F(ReplicaTest, BringsAWipedVoterUpToDate) {
  replica_cluster cluster(3, 500, 32);
  begin(cluster);
  decide(cluster, 100);
  const auto victim = follower(cluster);
  cluster.kill(victim);
  decide(cluster, 50); // past the entries that are kept, so that it takes a snapshot
  fs::remove_all(cluster.directory(victim));
  cluster.start(victim);
  EXPECT_TRUE(cluster.wait_for_calm()); // no longer joining
  EXPECT_THAT(cluster[victim].reports, Contains(HasSubstr("joins without memory")));
  EXPECT_EQ(cluster.check_all_equal(), "");
  // And it is a voter again: one of the other two may go.
  cluster.kill(follower(cluster, victim));
  decide(cluster, 5);
  EXPECT_EQ(cluster.check_all_equal(), "");
}

TEST_F(ReplicaTest, BringsAWipedLeaderUpToDate) {
  replica_cluster cluster(3, 500);
  begin(cluster);
  for (int round = 0; round < 3 && !HasFailure(); ++round) {
    decide(cluster, 10);
    const auto victim = cluster.wait_for_leader();
    cluster.kill(victim);
    fs::remove_all(cluster.directory(victim));
    cluster.start(victim);
    decide(cluster, 10);
    EXPECT_TRUE(cluster.wait_for_calm());
    EXPECT_EQ(cluster.check_all_equal(), "");
  }
}

TEST_F(ReplicaTest, DoesNotLetAWipedVoterElectOneThatLags) {
  replica_cluster cluster(3, 500);
  begin(cluster);
  decide(cluster, 10);
  const auto leader = cluster.wait_for_leader();
  const auto lagging = follower(cluster);
  const auto wiped = follower(cluster, lagging);
  cluster.signal(lagging, SIGSTOP);
  decide(cluster, 10); // held by the leader and by the one that loses its memory
  cluster.kill(leader);
  cluster.kill(wiped);
  fs::remove_all(cluster.directory(wiped));
  cluster.start(wiped);
  cluster.signal(lagging, SIGCONT);
  // A majority, but none that holds what was acknowledged: there must be no leader, however long one waits.
  EXPECT_FALSE(cluster.wait([&] { return cluster.leader_now() != 0; }, std::chrono::seconds(3)));
  cluster.start(leader);
  decide(cluster, 5);
  EXPECT_EQ(cluster.check_all_equal(), "");
}

TEST_F(ReplicaTest, MovesADamagedDirectoryAsideAndCatchesUp) {
  replica_cluster cluster(3, 500, 32);
  begin(cluster);
  const auto damage_all = [&](std::size_t voter, const std::string& prefix, std::uintmax_t keep) {
    for (const auto& entry : fs::directory_iterator(cluster.directory(voter)))
      if (entry.path().filename().string().starts_with(prefix)) {
        fs::resize_file(entry.path(), std::min(keep, fs::file_size(entry.path())));
        std::ofstream(entry.path(), std::ios::binary | std::ios::app) << std::string(100, '\x7f');
      }
  };
  int number = 0;
  for (const std::string prefix : {"metadata", "snapshot-", "0000"}) {
    decide(cluster, 60);
    const auto victim = follower(cluster);
    ASSERT_EQ(cluster.stop(victim), 0);
    damage_all(victim, prefix, 64);
    cluster.start(victim);
    EXPECT_TRUE(cluster.wait_for_calm()) << prefix;
    EXPECT_THAT(cluster[victim].reports, Contains(HasSubstr("moved it to"))) << prefix;
    EXPECT_EQ(cluster.check_all_equal(), "") << prefix;
    number += fs::exists(cluster.directory(victim) + ".damaged-1") ? 1 : 0;
  }
  EXPECT_EQ(number, 3);
}

TEST_F(ReplicaTest, GoesOnWithoutALeaderThatHangsAndTakesItBack) {
  replica_cluster cluster(3, 500);
  begin(cluster);
  decide(cluster, 5);
  const auto hung = cluster.wait_for_leader();
  cluster.signal(hung, SIGSTOP);
  // It still believes that it leads; only another one's answers count.
  EXPECT_TRUE(cluster.wait([&] { return cluster.leader_now() != hung; }));
  decide(cluster, 5);
  cluster.signal(hung, SIGCONT);
  EXPECT_TRUE(cluster.wait_for_calm());
  decide(cluster, 5);
  EXPECT_EQ(cluster.check_all_equal(), "");
}

TEST_F(ReplicaTest, SaysThatTheDiskIsFullAndLosesNothing) {
  replica_cluster cluster(3, 500, 32);
  begin(cluster);
  decide(cluster, 5);
  const auto full = cluster.wait_for_leader();
  rlimit any{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &any), 0);
  const rlimit none{.rlim_cur = 4096, .rlim_max = any.rlim_max};
  // As a full disk does, it refuses to let files grow; libraft notices when it needs the segment after the next ones.
  ASSERT_EQ(::prlimit(cluster[full].id, RLIMIT_FSIZE, &none, nullptr), 0);
  std::uint64_t version = 0;
  const auto publish = [&] {
    cluster.settle("publish", 1, cluster.next_sequence(), "1 " + std::to_string(++version) + " 3000000");
  };
  const auto noticed = [&] {
    return std::any_of(cluster[full].reports.begin(), cluster[full].reports.end(), [](const auto& text) {
      return text.find("tries again every") != text.npos && text.find("too large") != text.npos;
    });
  };
  for (int round = 0; round < 20 && !noticed() && !HasFailure(); ++round) {
    publish();
    decide(cluster, 10);
  }
  EXPECT_TRUE(cluster.wait(noticed));
  EXPECT_EQ(cluster[full].role, "waiting");
  decide(cluster, 20); // the other two go on
  ASSERT_EQ(::prlimit(cluster[full].id, RLIMIT_FSIZE, &any, nullptr), 0);
  EXPECT_TRUE(cluster.wait_for_calm());
  decide(cluster, 5);
  EXPECT_EQ(cluster.check_all_equal(), "");
}

TEST_F(ReplicaTest, ReplicatesTheLargestPolicyAndCheckpoint) {
  replica_cluster cluster(3, 10'000, 4); // on a busy machine 32 MiB take their time
  begin(cluster);
  for (int version = 1; version <= 3; ++version) {
    EXPECT_EQ(
        cluster.settle("publish", 1, cluster.next_sequence(), "1 " + std::to_string(version) + " 16777216").outcome,
        verdict::applied);
    cluster.decide();
  }
  EXPECT_EQ(cluster.check_all_equal(), "");
  const auto victim = follower(cluster);
  cluster.kill(victim);
  fs::remove_all(cluster.directory(victim));
  cluster.start(victim);
  EXPECT_TRUE(cluster.wait_for_calm());
  EXPECT_EQ(cluster.check_all_equal(), "");
  EXPECT_EQ(cluster[victim].state->policy_version, 3U);
  EXPECT_EQ(cluster[victim].state->policy_bytes, 16777216U);
}

} // namespace
} // namespace dynamix::replication
