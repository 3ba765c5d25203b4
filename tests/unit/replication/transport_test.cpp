// Links before they are Raft's, over real sockets on loopback. A stand-in for libraft counts what it is handed.

#include "faults/proxy.hpp"
#include "links/door.hpp"
#include "replication/frame_check.hpp"
#include "replication/guarded_io.hpp"
#include "tests/unit/links/temporary_keys.hpp"
#include "tests/unit/links/told_lines.hpp"
#include "tests/unit/replication/raw_peer.hpp"
#include "tests/unit/replication/transport_host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace dynamix::replication {
namespace {

const std::string nowhere = "127.0.0.1:1";

std::string at(std::uint16_t port) {
  return "127.0.0.1:" + std::to_string(port);
}

/// Voters 1 and 2 of the hosts "one" and "two", which have keys, as has "three", which is not a voter.
class TransportOverLinks : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(links::make_keys(keys_.path(), links::testing::request_of({"one", "two", "three"})), "");
  }
  /// Behind the host's door, which is open.
  std::shared_ptr<links::pump> pump_of(const std::string& host, decltype(links::pump_options::inspect) inspect = {}) {
    const auto own = links::host_directory(keys_.path(), host);
    std::string problem;
    std::shared_ptr<links::pump> started = links::pump::start({.directory = own,
                                                               .host = host,
                                                               .accepted = {"one", "two"},
                                                               .protocol = links::raft_protocol,
                                                               .inspect = std::move(inspect),
                                                               .silent_peer_ms = 5000,
                                                               .report = lines_.report()},
                                                              problem);
    EXPECT_NE(started, nullptr) << problem;
    auto& door = doors_[host] =
        links::door::start({.directory = own, .host = host, .report = lines_.report()}, problem);
    EXPECT_NE(door, nullptr) << problem;
    door->lead_to(started);
    EXPECT_EQ(door->listen("127.0.0.1", 0), "");
    return started;
  }
  std::string place_of(const std::string& host) { return at(doors_.at(host)->port()); }
  std::unique_ptr<transport_host> start(std::uint64_t id, const std::string& host, std::vector<voter> others,
                                        std::uint32_t handshake_ms = 20'000) {
    return std::make_unique<transport_host>(id, std::move(others), pump_of(host), handshake_ms);
  }
  bool door_has_refused(const std::string& host) {
    return wait_until([&] { return doors_.at(host)->counts().refused == 1; });
  }

  links::testing::temporary_keys keys_;
  links::testing::told_lines lines_;
  std::map<std::string, std::unique_ptr<links::door>> doors_;
};

TEST_F(TransportOverLinks, HandsOverAStreamAndTellsItsEnd) {
  const auto second = start(2, "two", {{1, nowhere, "one"}});
  {
    const auto first = start(1, "one", {{2, place_of("two"), "two"}});
    ASSERT_EQ(first->connect(2), 0);
    EXPECT_TRUE(second->wait([&] { return second->accepted() == std::vector<std::uint64_t>{1}; }));
    first->send_on_stream("raft speaks");
    EXPECT_TRUE(second->wait([&] { return second->received() == "raft speaks"; }));
    EXPECT_EQ(first->counts().connected, 1U);
    EXPECT_EQ(second->counts().accepted, 1U);
  }
  EXPECT_TRUE(second->wait([&] { return second->hung_up() == std::vector<std::uint64_t>{1}; }));
  EXPECT_THAT(lines_.all(), testing::IsEmpty());
}

TEST_F(TransportOverLinks, TellsWhenTheLastConnectionOfAVoterHasEnded) {
  const auto third = start(3, "three", {{1, nowhere, "one"}, {2, nowhere, "two"}});
  {
    const std::vector<voter> called = {{3, place_of("three"), "three"}};
    const auto links = pump_of("one");
    transport_host first(1, called, links);
    const auto second = start(2, "two", called);
    {
      transport_host again(1, called, links);
      ASSERT_EQ(first.connect(3), 0);
      ASSERT_EQ(again.connect(3), 0);
      ASSERT_EQ(second->connect(3), 0);
      EXPECT_TRUE(third->wait([&] { return third->accepted().size() == 3; }));
    }
    first.send_on_stream("still here");
    EXPECT_TRUE(third->wait([&] { return third->received() == "still here"; }));
    EXPECT_EQ(third->hung_up(), std::vector<std::uint64_t>{});
  }
  EXPECT_TRUE(third->wait([&] { return third->hung_up().size() == 2; }));
}

TEST_F(TransportOverLinks, GivesUpOnAPortWhereNobodyListensAndOnANameThatIsNone) {
  const auto gone = raw_listener().port();
  const auto host =
      start(1, "one", {{2, at(gone), "two"}, {3, "no-such-host.invalid:1", "three"}, {4, "nonsense", "four"}});
  for (const std::uint64_t id : {2, 3, 4, 5}) // 5 is not a voter
    EXPECT_EQ(host->connect(id), RAFT_NOCONNECTION) << id;
}

TEST_F(TransportOverLinks, EndsWhereThePathChangesOrCutsWhatItCarriesAndIsCalledAgain) {
  const auto second = start(2, "two", {{1, nowhere, "one"}});
  faults::proxy path;
  const auto port = path.add_link("path", "127.0.0.1", doors_.at("two")->port());
  const auto first = start(1, "one", {{2, at(port), "two"}});
  std::size_t ends = 0;
  std::string sent;
  for (const auto harm : {&faults::proxy::corrupt_next, &faults::proxy::truncate_next}) {
    ASSERT_EQ(first->connect(2), 0);
    first->send_on_stream("whole ");
    sent += "whole ";
    EXPECT_TRUE(second->wait([&] { return second->received() == sent; }));
    (path.*harm)("path", faults::way::to_server);
    first->send_on_stream("harmed");
    EXPECT_TRUE(second->wait([&] { return second->hung_up().size() == ends + 1; }));
    ++ends;
  }
  ASSERT_EQ(first->connect(2), 0);
  first->send_on_stream("again");
  EXPECT_TRUE(second->wait([&] { return second->received() == sent + "again"; })) << second->received();
}

TEST_F(TransportOverLinks, RefusesHostsOfTheClusterThatAreNoVoters) {
  const auto second = start(2, "two", {{3, nowhere, "three"}}); // whom its pump does not accept, as it does "one"
  const auto third = start(3, "three", {{2, place_of("two"), "two"}});
  EXPECT_EQ(third->connect(2), RAFT_NOCONNECTION);
  EXPECT_TRUE(lines_.say("host \"three\" may not connect to this one"));
  const auto first = start(1, "one", {{2, place_of("two"), "two"}});
  first->begin_connect(2);
  EXPECT_TRUE(second->wait([&] { return second->counts().refused == 1; }));
  EXPECT_THAT(second->reports(), testing::ElementsAre(testing::HasSubstr("host \"one\", which is no other voter's")));
  EXPECT_THAT(second->accepted(), testing::IsEmpty());
}

TEST_F(TransportOverLinks, BreaksWhereAVoterSaysWhatLibraftWouldNotSurvive) {
  transport_host second(2, {{1, nowhere, "one"}}, pump_of("two", replication::inspect_frames));
  const auto first = start(1, "one", {{2, place_of("two"), "two"}});
  ASSERT_EQ(first->connect(2), 0);
  first->send_on_stream(std::string("\1\0\0\0\0\0\0\0\x38\0\0\0\0\0\0\0", 16)); // to append, 56 bytes
  EXPECT_TRUE(second.wait([&] { return second.received().size() == 16; }));
  first->send_on_stream(std::string(32, '\0') + std::string("\1\0\0\0\0\0\0\0", 8) +
                        std::string(16, '\4')); // one entry
  EXPECT_TRUE(second.wait([&] { return second.hung_up() == std::vector<std::uint64_t>{1}; }));
  EXPECT_TRUE(lines_.say("it is not a voter's message: an entry of kind 4"));
  EXPECT_EQ(second.received().size(), 16U);
}

TEST_F(TransportOverLinks, ReachesOnlyTheHostThatItCalls) {
  const auto second = start(2, "two", {{1, nowhere, "one"}});
  const auto first = start(1, "one", {{3, place_of("two"), "three"}});
  EXPECT_EQ(first->connect(3), RAFT_NOCONNECTION);
  EXPECT_TRUE(lines_.say("it is host \"two\", and \"three\" was called"));
  EXPECT_TRUE(door_has_refused("two"));
  EXPECT_THAT(second->accepted(), testing::IsEmpty());
}

TEST_F(TransportOverLinks, RefusesWhoeverSpeaksRaftAtOnce) {
  const auto host = start(1, "one", {{2, nowhere, "two"}});
  raw_peer peer(doors_.at("one")->port());
  peer.send({1, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_TRUE(peer.hung_up());
  EXPECT_TRUE(lines_.say("it does not speak TLS"));
  EXPECT_TRUE(door_has_refused("one"));
  EXPECT_THAT(host->accepted(), testing::IsEmpty());
}

TEST_F(TransportOverLinks, GivesUpOnTheSilent) {
  raw_listener mute;
  const auto host = start(1, "one", {{2, at(mute.port()), "two"}}, 500);
  EXPECT_EQ(host->connect(2), RAFT_NOCONNECTION);
  EXPECT_EQ(host->counts().timed_out, 1U);
}

TEST_F(TransportOverLinks, CancelsWhatIsUnderWayWhenItCloses) {
  raw_listener mute;
  const auto host = start(1, "one", {{2, at(mute.port()), "two"}}, 60'000);
  host->begin_connect(2);
  EXPECT_EQ(host->close(), RAFT_CANCELED);
}

TEST_F(TransportOverLinks, IsReachedByWhoeverTakesItsPlaceAtTheSamePort) {
  const auto links = pump_of("two");
  const auto first = start(1, "one", {{2, place_of("two"), "two"}});
  EXPECT_EQ(first->connect(2), RAFT_NOCONNECTION) << "it is not there yet";
  for (int life = 0; life < 2; ++life) {
    transport_host second(2, {{1, nowhere, "one"}}, links);
    EXPECT_EQ(first->connect(2), 0) << life;
    EXPECT_TRUE(second.wait([&] { return second.accepted().size() == 1; }));
  }
  EXPECT_EQ(first->connect(2), RAFT_NOCONNECTION) << "it has gone";
}

// A follower's disk may be slower than the election of another leader. libraft then answers nobody.
TEST(GuardedIo, DropsWhatIsMeantForNobody) {
  uv_loop_t loop{};
  ::uv_loop_init(&loop);
  transport connections(loop, {.id = 1, .voters = {{1, nowhere}}});
  guarded_io io;
  ASSERT_EQ(io.init(loop, testing::TempDir(), *connections.interface()), 0);
  raft nobody{};
  nobody.io = io.interface();
  io.interface()->data = &nobody;
  raft_message answer{};
  set_kind(answer, message_kind::append_entries_result);
  answer.server_id = 7;
  answer.server_address = reinterpret_cast<const char*>(0x100); // a candidate's flags
  int told = 0;
  raft_io_send request{};
  request.data = &told;
  const auto sent = [](raft_io_send* done, int status) { *static_cast<int*>(done->data) = status; };
  EXPECT_EQ(io.interface()->send(io.interface(), &request, &answer, sent), 0);
  EXPECT_EQ(told, RAFT_NOCONNECTION);
  io.close();
  ::uv_run(&loop, UV_RUN_DEFAULT);
  ::uv_loop_close(&loop);
}

} // namespace
} // namespace dynamix::replication
