// The challenge before a Raft stream, over real sockets on loopback. A stand-in for libraft counts what it is handed.

#include "faults/proxy.hpp"
#include "links/door.hpp"
#include "replication/challenge.hpp"
#include "replication/frame_check.hpp"
#include "replication/guarded_io.hpp"
#include "tests/unit/links/temporary_keys.hpp"
#include "tests/unit/links/told_lines.hpp"
#include "tests/unit/replication/raw_peer.hpp"
#include "tests/unit/replication/transport_host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

namespace dynamix::replication {
namespace {

using bytes = std::vector<std::uint8_t>;

const bytes secret(32, 0x5a);
const bytes other_secret(32, 0x5b);

const std::string nowhere = "127.0.0.1:1";

std::string at(std::uint16_t port) {
  return "127.0.0.1:" + std::to_string(port);
}

template <class Array>
bytes to_bytes(const Array& array) {
  return {array.begin(), array.end()};
}

challenge greeting_by(std::uint64_t initiator, std::uint64_t acceptor) {
  challenge with{.initiator = initiator, .acceptor = acceptor};
  EXPECT_TRUE(fill_random(with.initiator_nonce));
  return with;
}

/// Voter 2 at `port`, by hand: returns the proof, having checked the answer.
bytes prove(raw_peer& peer, const bytes& with_secret, std::uint64_t initiator = 2) {
  const auto key = derive_key(with_secret);
  auto with = greeting_by(initiator, 1);
  peer.send(to_bytes(encode_greeting(with)));
  const auto answer = peer.receive(answer_bytes);
  if (answer.size() != answer_bytes)
    return {};
  EXPECT_EQ(check_answer(key, std::span<const std::uint8_t, answer_bytes>(answer.data(), answer_bytes), with),
            with_secret == secret);
  return to_bytes(encode_proof(key, with));
}

TEST(Transport, HandsOverAStreamWhenBothKnowTheSecret) {
  transport_host second(2, {{1, nowhere}}, secret);
  transport_host first(1, {{2, at(second.port())}}, secret);
  ASSERT_EQ(first.connect(2), 0);
  EXPECT_TRUE(second.wait([&] { return second.accepted() == std::vector<std::uint64_t>{1}; }));
  first.send_on_stream("raft speaks");
  EXPECT_TRUE(second.wait([&] { return second.received() == "raft speaks"; }));
  EXPECT_EQ(first.counts().connected, 1U);
  EXPECT_EQ(second.counts().accepted, 1U);
}

TEST(Transport, TellsWhenTheLastConnectionOfAVoterHasEnded) {
  transport_host third(3, {{1, nowhere}, {2, nowhere}}, secret);
  {
    transport_host first(1, {{3, at(third.port())}}, secret);
    transport_host second(2, {{3, at(third.port())}}, secret);
    {
      transport_host again(1, {{3, at(third.port())}}, secret);
      ASSERT_EQ(first.connect(3), 0);
      ASSERT_EQ(again.connect(3), 0);
      ASSERT_EQ(second.connect(3), 0);
      EXPECT_TRUE(third.wait([&] { return third.accepted().size() == 3; }));
    }
    first.send_on_stream("still here");
    EXPECT_TRUE(third.wait([&] { return third.received() == "still here"; }));
    EXPECT_EQ(third.hung_up(), std::vector<std::uint64_t>{});
  }
  EXPECT_TRUE(third.wait([&] { return third.hung_up().size() == 2; }));
}

TEST(Transport, LetsNobodyInAndConnectsToNobodyWithAnotherSecret) {
  transport_host second(2, {{1, nowhere}}, other_secret);
  transport_host first(1, {{2, at(second.port())}}, secret);
  EXPECT_EQ(first.connect(2), RAFT_NOCONNECTION);
  EXPECT_TRUE(second.wait([&] { return second.counts().broken == 1; })); // the other side has hung up
  EXPECT_THAT(second.accepted(), testing::IsEmpty());
  EXPECT_EQ(first.counts().refused, 1U);
  EXPECT_THAT(first.reports(), testing::Contains(testing::HasSubstr("does not know the cluster's secret")));
}

TEST(Transport, TakesWhatFollowsTheProofAtOnceAsTheStreamsFirstBytes) {
  transport_host host(1, {{2, nowhere}}, secret);
  raw_peer peer(host.port());
  auto last = prove(peer, secret);
  for (const char letter : std::string("first words"))
    last.push_back(static_cast<std::uint8_t>(letter));
  peer.send(last);
  EXPECT_TRUE(host.wait([&] { return host.received() == "first words"; }));
  EXPECT_EQ(host.accepted(), std::vector<std::uint64_t>{2});
}

TEST(Transport, TakesTheChallengeInSingleBytes) {
  transport_host host(1, {{2, nowhere}}, secret);
  raw_peer peer(host.port());
  const auto key = derive_key(secret);
  auto with = greeting_by(2, 1);
  for (const auto byte : encode_greeting(with))
    peer.send({byte});
  const auto answer = peer.receive(answer_bytes);
  ASSERT_EQ(answer.size(), answer_bytes);
  ASSERT_TRUE(check_answer(key, std::span<const std::uint8_t, answer_bytes>(answer.data(), answer_bytes), with));
  for (const auto byte : encode_proof(key, with))
    peer.send({byte});
  EXPECT_TRUE(host.wait([&] { return host.accepted().size() == 1; }));
}

TEST(Transport, RefusesAWrongProof) {
  transport_host host(1, {{2, nowhere}}, secret);
  raw_peer peer(host.port());
  peer.send(prove(peer, other_secret));
  EXPECT_TRUE(peer.hung_up());
  EXPECT_THAT(host.accepted(), testing::IsEmpty());
  EXPECT_EQ(host.counts().refused, 1U);
}

TEST(Transport, RefusesIdsThatAreNoVotersAndItsOwn) {
  transport_host host(1, {{2, nowhere}}, secret);
  for (const std::uint64_t id : {0, 1, 3}) {
    raw_peer peer(host.port());
    peer.send(to_bytes(encode_greeting(greeting_by(id, 1))));
    EXPECT_TRUE(peer.hung_up());
  }
  raw_peer astray(host.port()); // meant for voter 3
  astray.send(to_bytes(encode_greeting(greeting_by(2, 3))));
  EXPECT_TRUE(astray.hung_up());
  EXPECT_EQ(host.counts().refused, 4U);
  EXPECT_THAT(host.accepted(), testing::IsEmpty());
}

TEST(Transport, RefusesAProofThatWasRecorded) {
  transport_host host(1, {{2, nowhere}}, secret);
  const auto key = derive_key(secret);
  auto with = greeting_by(2, 1);
  bytes recorded;
  {
    raw_peer genuine(host.port());
    genuine.send(to_bytes(encode_greeting(with)));
    const auto answer = genuine.receive(answer_bytes);
    ASSERT_EQ(answer.size(), answer_bytes);
    ASSERT_TRUE(check_answer(key, std::span<const std::uint8_t, answer_bytes>(answer.data(), answer_bytes), with));
    recorded = to_bytes(encode_proof(key, with));
    genuine.send(recorded);
    ASSERT_TRUE(host.wait([&] { return host.accepted().size() == 1; }));
  }
  raw_peer replayed(host.port());
  replayed.send(to_bytes(encode_greeting(with)));
  ASSERT_EQ(replayed.receive(answer_bytes).size(), answer_bytes);
  replayed.send(recorded);
  EXPECT_TRUE(replayed.hung_up());
  EXPECT_EQ(host.accepted().size(), 1U);
}

TEST(Transport, RefusesItsOwnAnswerSentBackAsAProof) {
  transport_host host(1, {{2, nowhere}}, secret);
  raw_peer peer(host.port());
  peer.send(to_bytes(encode_greeting(greeting_by(2, 1))));
  const auto answer = peer.receive(answer_bytes);
  ASSERT_EQ(answer.size(), answer_bytes);
  peer.send({answer.end() - mac_bytes, answer.end()});
  EXPECT_TRUE(peer.hung_up());
  EXPECT_THAT(host.accepted(), testing::IsEmpty());
}

TEST(Transport, DropsGarbage) {
  transport_host host(1, {{2, nowhere}}, secret);
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    raw_peer peer(host.port());
    bytes garbage(1 + random() % 4096);
    for (auto& byte : garbage)
      byte = static_cast<std::uint8_t>(random());
    peer.send(garbage);
    peer.finish_sending();
    EXPECT_TRUE(peer.hung_up());
  }
  EXPECT_THAT(host.accepted(), testing::IsEmpty());
  EXPECT_EQ(host.counts().refused + host.counts().broken, 50U);
  EXPECT_EQ(host.received(), "");
}

TEST(Transport, DropsTheSilentAfterTheirTimeWhereverTheyFallSilent) {
  transport_host host(1, {{2, nowhere}}, secret, 5'000);
  raw_peer mute(host.port());
  raw_peer half(host.port());
  const auto greeting = to_bytes(encode_greeting(greeting_by(2, 1)));
  half.send({greeting.begin(), greeting.begin() + 20});
  raw_peer unproved(host.port());
  unproved.send(greeting);
  EXPECT_TRUE(mute.hung_up());
  EXPECT_TRUE(half.hung_up());
  ASSERT_EQ(unproved.receive(answer_bytes).size(), answer_bytes);
  EXPECT_TRUE(unproved.hung_up());
  EXPECT_EQ(host.counts().timed_out, 3U);
}

TEST(Transport, GivesUpOnAPeerThatListensButSaysNothing) {
  raw_listener mute;
  transport_host host(1, {{2, at(mute.port())}}, secret, 1'000);
  EXPECT_EQ(host.connect(2), RAFT_NOCONNECTION);
  EXPECT_EQ(host.counts().timed_out, 1U);
}

TEST(Transport, GivesUpOnAPortWhereNobodyListensAndOnANameThatIsNone) {
  const auto gone = raw_listener().port();
  transport_host host(1, {{2, at(gone)}, {3, "no-such-host.invalid:1"}, {4, "nonsense"}}, secret);
  for (const std::uint64_t id : {2, 3, 4, 5}) // 5 is not a voter
    EXPECT_EQ(host.connect(id), RAFT_NOCONNECTION) << id;
}

TEST(Transport, SurvivesPeersThatHangUpEarly) {
  transport_host host(1, {{2, nowhere}}, secret);
  const auto greeting = to_bytes(encode_greeting(greeting_by(2, 1)));
  for (std::size_t cut = 0; cut <= greeting.size(); cut += 8) {
    raw_peer peer(host.port());
    peer.send({greeting.begin(), greeting.begin() + static_cast<std::ptrdiff_t>(cut)});
  }
  EXPECT_TRUE(host.wait([&] { return host.counts().broken == greeting.size() / 8 + 1; }));
  raw_peer peer(host.port());
  peer.send(prove(peer, secret));
  EXPECT_TRUE(host.wait([&] { return host.accepted().size() == 1; }));
}

TEST(Transport, MakesRoomForAVoterAmongManyThatLinger) {
  transport_host host(1, {{2, nowhere}}, secret, 60'000);
  std::vector<std::unique_ptr<raw_peer>> crowd;
  for (std::size_t index = 0; index < 3 * max_pending_incoming; ++index)
    crowd.push_back(std::make_unique<raw_peer>(host.port()));
  EXPECT_TRUE(host.wait([&] { return host.counts().dropped == 2 * max_pending_incoming; }));
  EXPECT_TRUE(crowd.front()->hung_up()); // the oldest go first
  raw_peer peer(host.port());
  peer.send(prove(peer, secret));
  EXPECT_TRUE(host.wait([&] { return host.accepted().size() == 1; }));
}

TEST(Transport, CancelsWhatIsUnderWayWhenItCloses) {
  raw_listener mute;
  transport_host host(1, {{2, at(mute.port())}}, secret, 60'000);
  host.begin_connect(2);
  raw_peer lingering(host.port());
  EXPECT_EQ(host.close(), RAFT_CANCELED);
  EXPECT_TRUE(lingering.hung_up());
}

TEST(Transport, SaysWhyItCannotListen) {
  raw_listener taken;
  EXPECT_THAT(transport_host::listen_error(at(taken.port())), testing::HasSubstr("address already in use"));
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
    return std::make_unique<transport_host>(id, std::move(others), secret, handshake_ms, pump_of(host));
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
  transport_host second(2, {{1, nowhere, "one"}}, secret, 20'000, pump_of("two", replication::inspect_frames));
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

TEST_F(TransportOverLinks, RefusesWhoeverHasOnlyTheSecret) {
  const auto host = start(1, "one", {{2, nowhere, "two"}});
  raw_peer peer(doors_.at("one")->port());
  peer.send(to_bytes(encode_greeting(greeting_by(2, 1))));
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
  EXPECT_EQ(host->port(), 0U) << "it has no port of its own";
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
    transport_host second(2, {{1, nowhere, "one"}}, secret, 20'000, links);
    EXPECT_EQ(first->connect(2), 0) << life;
    EXPECT_TRUE(second.wait([&] { return second.accepted().size() == 1; }));
  }
  EXPECT_EQ(first->connect(2), RAFT_NOCONNECTION) << "it has gone";
}

// A follower's disk may be slower than the election of another leader. libraft then answers nobody.
TEST(GuardedIo, DropsWhatIsMeantForNobody) {
  uv_loop_t loop{};
  ::uv_loop_init(&loop);
  transport connections(loop, {.id = 1, .voters = {{1, nowhere}}, .listen = nowhere, .secret = secret});
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

TEST(Challenge, BindsEveryField) {
  const auto key = derive_key(secret);
  auto with = greeting_by(2, 1);
  ASSERT_TRUE(fill_random(with.acceptor_nonce));
  const auto proof = encode_proof(key, with);
  EXPECT_TRUE(check_proof(key, proof, with));
  for (int field = 0; field < 4; ++field) {
    auto changed = with;
    changed.initiator += field == 0 ? 1 : 0;
    changed.acceptor += field == 1 ? 1 : 0;
    changed.initiator_nonce[31] ^= field == 2 ? 1 : 0;
    changed.acceptor_nonce[0] ^= field == 3 ? 1 : 0;
    EXPECT_FALSE(check_proof(key, proof, changed)) << field;
  }
  EXPECT_FALSE(check_proof(derive_key(other_secret), proof, with));
  const auto greeting = encode_greeting(with);
  const auto read = decode_greeting(greeting);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->initiator, 2U);
  EXPECT_EQ(read->acceptor, 1U);
  EXPECT_EQ(read->initiator_nonce, with.initiator_nonce);
}

} // namespace
} // namespace dynamix::replication
