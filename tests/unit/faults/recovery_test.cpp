#include "faults/recovery.hpp"
#include "tests/unit/ledger/rows.hpp"

#include <gtest/gtest.h>

namespace dynamix::faults {
namespace {

class Recovery : public ::testing::Test {
protected:
  void begin(fault_kind kind, std::vector<std::string> hosts, double now, double duration = 0) {
    tracker_.begin({.number = ++number_,
                    .kind = kind,
                    .hosts = std::move(hosts),
                    .start_seconds = now,
                    .end_seconds = now + duration},
                   now);
    if (duration == 0)
      tracker_.end(number_, now);
  }
  void add(double now, ledger::entry entry) { tracker_.add({now, std::move(entry)}, now); }
  void lose(double now, const std::string& host) { add(now, ledger::event{ledger::event_kind::lost, host, ""}); }
  void form(double now, std::vector<std::string> members, std::uint64_t lost = 0) {
    add(now, ledger::generation{.generation = ++generation_, .members = std::move(members), .steps_lost = lost});
  }
  const fault_record& last() { return tracker_.records().back(); }

  cluster::cluster_file file_ = ledger::testing::small_cluster(3);
  recovery_tracker tracker_{file_, 30};
  std::uint32_t number_ = 0;
  std::uint64_t generation_ = 0;
};

TEST_F(Recovery, OfAKilledWorkerIsItsPlaceInAGeneration) {
  form(0, {"w0", "w1", "w2"});
  begin(fault_kind::kill, {"w1"}, 10);
  add(10.1, ledger::window{}); // closed before anybody noticed
  EXPECT_TRUE(tracker_.busy(10.1));
  lose(10.2, "w1");
  form(10.3, {"w0", "w2"}, 1);
  add(10.6, ledger::event{ledger::event_kind::resumed, "", ""});
  add(11, ledger::window{});
  EXPECT_TRUE(tracker_.busy(11)) << "it is not back";
  form(13, {"w0", "w1", "w2"});
  EXPECT_TRUE(tracker_.busy(13)) << "no window has closed with it";
  add(14, ledger::window{});
  EXPECT_FALSE(tracker_.busy(14));
  EXPECT_EQ(last().detected_seconds, 10.2);
  EXPECT_EQ(last().resumed_seconds, 10.6);
  EXPECT_EQ(last().recovered_seconds, 14);
  EXPECT_EQ(last().steps_lost, 1U);
}

TEST_F(Recovery, OfAKilledArbitratorIsAWindowOfItsNextLife) {
  begin(fault_kind::kill, {"hub"}, 10);
  add(10.1, ledger::window{}); // was written before
  EXPECT_TRUE(tracker_.busy(10.1));
  add(11, ledger::start{});
  EXPECT_TRUE(tracker_.busy(11));
  add(12, ledger::window{});
  EXPECT_FALSE(tracker_.busy(12));
  EXPECT_EQ(last().resumed_seconds, 12);
  EXPECT_LT(last().detected_seconds, 0) << "nobody writes the ledger then";
}

TEST_F(Recovery, OfAKilledLeaderIsAWindowOfAnother) {
  auto second = file_.hosts.front();
  second.name = "hub2";
  file_.hosts.push_back(second);
  add(0, ledger::event{ledger::event_kind::leader, "hub", "Raft term 1"});
  begin(fault_kind::kill, {"hub2"}, 5);
  add(6, ledger::window{});
  EXPECT_FALSE(tracker_.busy(6)) << "it only followed";
  begin(fault_kind::kill, {"hub"}, 10);
  add(10.1, ledger::window{});
  EXPECT_TRUE(tracker_.busy(10.1));
  add(10.3, ledger::event{ledger::event_kind::leader, "hub2", "Raft term 2"});
  add(10.6, ledger::window{});
  EXPECT_EQ(last().resumed_seconds, 10.6);
  EXPECT_FALSE(tracker_.busy(10.6));
}

TEST_F(Recovery, OfAKilledReplicaIsItsVote) {
  for (const char* name : {"hub2", "hub3"}) {
    auto another = file_.hosts.front();
    another.name = name;
    file_.hosts.push_back(another);
  }
  file_.arbitrator.replicas = {"hub", "hub2", "hub3"};
  add(0, ledger::event{ledger::event_kind::leader, "hub", "Raft term 1"});
  begin(fault_kind::kill, {"hub"}, 10);
  add(10.2, ledger::event{ledger::event_kind::leader, "hub2", "Raft term 2"});
  add(10.3, ledger::window{});
  EXPECT_EQ(last().resumed_seconds, 10.3) << "another decides";
  EXPECT_TRUE(tracker_.busy(10.3)) << "one more death, and there would be no majority";
  add(11, ledger::start{});
  add(11.1, ledger::event{ledger::event_kind::follows, "hub3", "hub2 leads"});
  add(11.2, ledger::window{});
  EXPECT_TRUE(tracker_.busy(11.2)) << "another follows";
  add(11.5, ledger::event{ledger::event_kind::follows, "hub", "hub2 leads"});
  add(11.6, ledger::window{});
  EXPECT_FALSE(tracker_.busy(11.6));
  EXPECT_EQ(last().recovered_seconds, 11.6);
}

TEST_F(Recovery, OfAShortHangNeedsNoLoss) {
  begin(fault_kind::hang, {"w2"}, 10, 0.5);
  add(10.2, ledger::window{});
  EXPECT_TRUE(tracker_.busy(10.2)) << "it is not over";
  tracker_.end(1, 10.5);
  add(11, ledger::window{});
  EXPECT_TRUE(last().recovered());
  EXPECT_LT(last().detected_seconds, 0);
}

TEST_F(Recovery, OfALongHangNeedsTheReturn) {
  begin(fault_kind::hang, {"w2"}, 10, 5);
  lose(11.6, "w2");
  form(11.7, {"w0", "w1"}, 1);
  add(12, ledger::window{});
  tracker_.end(1, 15);
  add(15.5, ledger::window{});
  EXPECT_FALSE(last().recovered());
  form(16, {"w0", "w1", "w2"});
  add(17, ledger::window{});
  EXPECT_EQ(last().recovered_seconds, 17);
}

TEST_F(Recovery, OfAHostThatJoinsIsThePlaceOfEachOfItsWorkers) {
  cluster::host guest{.name = "guest", .workers = 2};
  guest.slots = cluster::make_slots(guest);
  file_.hosts.push_back(guest);
  begin(fault_kind::join, {"guest"}, 10);
  form(11, {"w0", "w1", "w2", "guest/1"});
  add(12, ledger::window{});
  EXPECT_TRUE(tracker_.busy(12)) << "one of them is not there";
  form(13, {"w0", "w1", "w2", "guest/1", "guest/0"});
  add(14, ledger::window{});
  EXPECT_EQ(last().recovered_seconds, 14);
  EXPECT_LT(last().detected_seconds, 0) << "nobody is lost";
  begin(fault_kind::kill, {"guest"}, 20);
  lose(21, "guest/0");
  EXPECT_EQ(last().detected_seconds, 21);
  form(22, {"w0", "w1", "w2", "guest/0"});
  add(23, ledger::window{});
  EXPECT_FALSE(last().recovered()) << "a host is back with all its workers";
  form(24, {"w0", "w1", "w2", "guest/0", "guest/1"});
  add(25, ledger::window{});
  EXPECT_TRUE(last().recovered());
}

TEST_F(Recovery, HasItsTime) {
  begin(fault_kind::kill, {"w1"}, 10);
  lose(10.2, "w1");
  EXPECT_TRUE(tracker_.busy(39.9));
  EXPECT_FALSE(tracker_.busy(40)) << "others may begin";
  EXPECT_FALSE(last().recovered());
}

TEST_F(Recovery, CountsALostStepToTheNewestFault) {
  begin(fault_kind::kill, {"w1"}, 10);
  form(11, {"w0", "w2"}, 1);
  begin(fault_kind::kill, {"w2"}, 12);
  form(13, {"w0"}, 2);
  EXPECT_EQ(tracker_.records()[0].steps_lost, 1U);
  EXPECT_EQ(tracker_.records()[1].steps_lost, 2U);
  EXPECT_EQ(tracker_.records()[1].detected_seconds, 13) << "a generation without it tells of its loss too";
}

} // namespace
} // namespace dynamix::faults
