/// Who is refused, each with one line that says why, and before a byte reaches whoever takes links.

#include "links/refusals.hpp"
#include "tests/unit/links/link_pair.hpp"
#include "tests/unit/links/raw_client.hpp"

#include <gmock/gmock.h>

#include <array>
#include <ctime>
#include <map>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <tuple>

namespace dynamix::links {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using std::chrono::milliseconds;

constexpr std::array<const char*, 4> protocols = {control_protocol, raft_protocol, gradient_protocol,
                                                  clear_gradient_protocol};

/// Ada's one port takes links of every protocol. Callers speak `protocol_`.
class LinkRefusal : public LinkPair {
protected:
  void SetUp() override {
    LinkPair::SetUp();
    for (const auto* protocol : protocols) {
      auto options = options_of("ada");
      options.protocol = protocol;
      pumps_.push_back(start(std::move(options)));
    }
    ada_ = pumps_.front();
    port_ = open_door(pumps_, patience_);
    take_links_of(*ada_);
    raft_queue_ = std::make_unique<plain_end>(pumps_[1]->take_links());
  }

public:
  using LinkPair::issued;
  /// A TLS client that gets no byte.
  void shake_hands(const raw_tls& client) {
    EXPECT_EQ(read_as_client(port_, client), "") << "it was accepted, and got bytes";
  }
  /// A peer that sends these bytes and is cut.
  void send(const std::string& bytes) {
    const raw_socket peer(port_);
    peer.send(bytes);
    std::string received;
    EXPECT_TRUE(peer.wait_for_end(received));
  }

  std::string directory() const { return keys_.path(); }

  std::string protocol_ = control_protocol;
  milliseconds patience_ = door_options{}.handshake_timeout; ///< of the door, with whoever shakes hands
  std::vector<std::shared_ptr<pump>> pumps_;
  std::shared_ptr<pump> ada_; ///< for control
  std::unique_ptr<plain_end> raft_queue_;
  std::uint16_t port_ = 0;
};

/// A peer that is refused, and why.
struct refused_peer {
  const char* name;
  void (*behave)(LinkRefusal& at);
  const char* reason;
  milliseconds patience{60'000}; ///< far more than it takes: what else it is refused for comes before
};

constexpr const char* of_another_authority =
    "its certificate was issued by an authority that this host does not accept";

const refused_peer refused_peers[] = {
    {"NoCertificate", [](LinkRefusal& at) { at.shake_hands({.protocol = at.protocol_}); }, "it showed no certificate"},
    {"AnotherAuthority",
     [](LinkRefusal& at) { // it calls itself the same
       const auto valid = valid_for_days(std::time(nullptr), 365);
       credential made;
       ASSERT_EQ(issue_certificate(make_authority("pair", valid), "ben", valid, made), "");
       at.shake_hands({.own = made, .protocol = at.protocol_});
     },
     of_another_authority},
    {"AnExpiredCertificate",
     [](LinkRefusal& at) {
       const std::int64_t now = std::time(nullptr);
       at.shake_hands({.own = at.issued("ben", {now - 10 * day_seconds, now - day_seconds}), .protocol = at.protocol_});
     },
     "its certificate expired on "},
    {"ACertificateOfTheFuture",
     [](LinkRefusal& at) {
       const std::int64_t now = std::time(nullptr);
       at.shake_hands({.own = at.issued("ben", {now + day_seconds, now + 10 * day_seconds}), .protocol = at.protocol_});
     },
     "its certificate is not valid before "},
    {"AHostOfNoClusterFile",
     [](LinkRefusal& at) { at.shake_hands({.own = at.issued("dan"), .protocol = at.protocol_}); },
     "host \"dan\" may not connect to this one"},
    {"AHostWhoseRoleMayNot",
     [](LinkRefusal& at) { at.shake_hands({.own = at.issued("cy"), .protocol = at.protocol_}); },
     "host \"cy\" may not connect to this one"},
    {"ACertificateRevokedByRotation",
     [](LinkRefusal& at) {
       const auto stolen = at.issued("ben");
       rotation_step made{};
       for (int step = 0; step < 3; ++step)
         ASSERT_EQ(rotate_keys(at.directory(), request_of({"ada", "ben"}), made), "");
       std::this_thread::sleep_for(milliseconds(1100)); // it looks once a second
       at.shake_hands({.own = stolen, .protocol = at.protocol_});
     },
     of_another_authority},
    {"Tls12",
     [](LinkRefusal& at) { at.shake_hands({.own = at.issued("ben"), .protocol = at.protocol_, .version = 0x0303}); },
     "it does not speak TLS 1.3"},
    {"AnotherProtocol", [](LinkRefusal& at) { at.shake_hands({.own = at.issued("ben"), .protocol = "http/1.1"}); },
     "it asked for another protocol"},
    {"NoProtocol", [](LinkRefusal& at) { at.shake_hands({.own = at.issued("ben")}); }, "it asked for no protocol"},
    {"PlainBytes", [](LinkRefusal& at) { at.send("GET / HTTP/1.1\r\n\r\n"); }, "it does not speak TLS"},
    {"HalfAClientHello", [](LinkRefusal& at) { at.send(client_hello_begin()); },
     "it did not finish its handshake within 1.5 s", milliseconds(1500)},
    {"AClientHelloThatGoesOnWithRubbish",
     [](LinkRefusal& at) { at.send(client_hello_begin() + std::string(4096, '\xff')); }, ""},
    {"Silence", [](LinkRefusal& at) { at.send(""); }, "it said nothing within 1.5 s", milliseconds(1500)},
    {"AnEndWithoutAWord", [](LinkRefusal& at) { const raw_socket peer(at.port_); },
     "it closed the connection without a word"},
};

/// Each of them at the one port, for each protocol.
class HandshakeMatrix : public LinkRefusal,
                        public ::testing::WithParamInterface<std::tuple<const char*, refused_peer>> {
protected:
  void SetUp() override {
    protocol_ = std::get<0>(GetParam());
    patience_ = std::get<1>(GetParam()).patience;
    LinkRefusal::SetUp();
  }
};

INSTANTIATE_TEST_SUITE_P(Of, HandshakeMatrix,
                         ::testing::Combine(::testing::ValuesIn(protocols), ::testing::ValuesIn(refused_peers)),
                         [](const auto& cell) {
                           const std::string protocol = std::get<0>(cell.param);
                           return std::string(std::get<1>(cell.param).name) +
                                  (protocol == control_protocol    ? "ForControl"
                                   : protocol == raft_protocol     ? "ForRaft"
                                   : protocol == gradient_protocol ? "ForGradients"
                                                                   : "ForClearGradients");
                         });

TEST(Door, CutsWhoeverHasNotProvenHimselfWithinThreeSeconds) {
  EXPECT_EQ(door_options{}.handshake_timeout, std::chrono::seconds(3));
}

TEST_P(HandshakeMatrix, RefusesAndSaysWhyBeforeAByteReachesAnybody) {
  const auto& peer = std::get<1>(GetParam());
  const auto begin = std::chrono::steady_clock::now();
  peer.behave(*this);
  EXPECT_TRUE(wait_until([&] { return door_->counts().refused == 1; }));
  RecordProperty("took_ms", static_cast<int>((std::chrono::steady_clock::now() - begin) / milliseconds(1)));
  EXPECT_THAT(lines(), ElementsAre(HasSubstr(std::string(": ") + peer.reason)));
  EXPECT_FALSE(anything_handed_over());
  for (const auto& each : pumps_) {
    EXPECT_EQ(each->counts().opened, 0U);
    EXPECT_EQ(each->counts().refused, 0U);
  }
  EXPECT_EQ(door_->counts().proven, 0U);
  EXPECT_EQ(door_->counts().shaking_hands, 0U);
}

/// Ada is a worker and a voter: ben and cy are workers, dot and cy voters, and control messages come from nobody.
TEST_F(LinkPair, AreTakenByRoleForEachProtocolOfTheOnePort) {
  ASSERT_EQ(make_keys(keys_.path("roles"), request_of({"ada", "ben", "cy", "dot"})), "");
  credential authority;
  ASSERT_EQ(read_private_file(keys_.path("roles/authority/ca.crt"), authority.certificate), "");
  ASSERT_EQ(read_private_file(keys_.path("roles/authority/ca.key"), authority.key), "");
  const std::map<std::string, std::set<std::string>> accepted = {
      {control_protocol, {}}, {raft_protocol, {"cy", "dot"}}, {gradient_protocol, {"ben", "cy"}}};
  std::string problem;
  const auto own = host_directory(keys_.path("roles"), "ada");
  door_ = door::start({.directory = own, .host = "ada", .report = report()}, problem);
  ASSERT_NE(door_, nullptr) << problem;
  ASSERT_EQ(door_->listen("127.0.0.1", 0), "");
  std::vector<std::unique_ptr<plain_end>> queues;
  for (const auto& [protocol, names] : accepted) {
    auto pump = start({.directory = own, .host = "ada", .accepted = names, .protocol = protocol, .report = report()});
    if (protocol != gradient_protocol)
      queues.push_back(std::make_unique<plain_end>(pump->take_links()));
    door_->lead_to(std::move(pump));
  }
  std::uint64_t proven = 0;
  std::uint64_t refused = 0;
  for (const std::string name : {"ben", "cy", "dot"}) {
    credential caller;
    ASSERT_EQ(issue_certificate(authority, name, valid_for_days(std::time(nullptr), 1), caller), "");
    for (const std::string protocol : protocols) {
      const auto rule = accepted.find(protocol);
      const bool may = rule != accepted.end() && rule->second.contains(name);
      const auto answer = connect_and_leave(door_->port(), {.own = caller, .protocol = protocol});
      EXPECT_EQ(answer, may ? "\x01" : "") << name << " with " << protocol;
      (may ? proven : refused) += 1;
      EXPECT_TRUE(wait_until([&] { return door_->counts().proven == proven && door_->counts().refused == refused; }));
      const std::string reason = rule == accepted.end()
                                     ? "it sends gradients in the clear, and this host encrypts them"
                                     : "host \"" + name + "\" may not connect to this one with " + protocol;
      EXPECT_TRUE(may || says(reason)) << reason;
    }
  }
}

TEST_F(LinkPair, AreRefusedForAProtocolThatTheHostHasNoPartIn) {
  const auto control = start(options_of("ada"));
  const auto port = open_door({control});
  auto options = options_of("ben");
  options.protocol = raft_protocol;
  const auto ben = start(std::move(options));
  std::string problem;
  EXPECT_EQ(ben->connect("ada", "127.0.0.1", port, milliseconds(5000), problem), -1);
  EXPECT_TRUE(wait_until([&] { return door_->counts().refused == 1; }));
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("it asked for dynamix-raft/1, for which this host takes no links")));
}

TEST_F(LinkRefusal, TakesARawClientThatIsRight) {
  // What the others lack is what they are refused for.
  std::string answer;
  std::thread client([&] { answer = read_as_client(port_, {.own = issued("ben"), .protocol = control_protocol}); });
  plain_end link(next_link());
  EXPECT_TRUE(link.write("welcome"));
  link.close();
  client.join();
  EXPECT_EQ(answer, "\x01welcome");
  EXPECT_TRUE(wait_until([&] { return ada_->counts().open == 0; }));
  EXPECT_EQ(ada_->counts().opened, 1U);
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(LinkRefusal, OfACertificateIssuedByAHost) {
  credential made;
  EXPECT_NE(issue_certificate(issued("ben"), "ada", valid_for_days(std::time(nullptr), 1), made), "");
}

TEST_F(LinkRefusal, OfACallersAnswer) {
  auto options = options_of("ben");
  const auto ben = start(options);
  std::string problem;
  EXPECT_EQ(ben->connect("cy", "127.0.0.1", port_, milliseconds(5000), problem), -1);
  EXPECT_THAT(problem, HasSubstr("it is host \"ada\", and \"cy\" was called"));

  const auto cy = start(options_of("cy"));
  EXPECT_EQ(cy->connect("ada", "127.0.0.1", port_, milliseconds(5000), problem), -1);
  EXPECT_THAT(problem, HasSubstr("it refused this host"));

  ASSERT_EQ(make_keys(keys_.path("other"), request_of({"ada", "ben"})), "");
  options.directory = host_directory(keys_.path("other"), "ben");
  const auto stranger = start(options);
  EXPECT_EQ(stranger->connect("ada", "127.0.0.1", port_, milliseconds(5000), problem), -1);
  EXPECT_THAT(problem, HasSubstr("issued by an authority that this host does not accept"));
  EXPECT_TRUE(wait_until([&] { return door_->counts().refused == 3; }));
  EXPECT_FALSE(anything_handed_over());
}

TEST_F(LinkRefusal, OfACalledPortThatSaysNothing) {
  const int mute = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::listen(mute, 1), 0); // at a port that the kernel chooses
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ASSERT_EQ(::getsockname(mute, reinterpret_cast<sockaddr*>(&own), &size), 0);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&own);
  const auto port = static_cast<std::uint16_t>(bytes[2] << 8 | bytes[3]);
  const auto ben = start(options_of("ben", milliseconds(300)));
  std::string problem;
  EXPECT_EQ(ben->connect("ada", "127.0.0.1", port, milliseconds(5000), problem), -1);
  EXPECT_THAT(problem, HasSubstr("did not finish its handshake within 0.3 s"));
  ::close(mute);
}

TEST_F(LinkRefusal, OfMoreLinksThanAHostMayHave) {
  auto options = options_of("ada");
  options.links_a_host_max = 2;
  const auto few = start(options);
  const auto first_door = std::exchange(door_, nullptr);
  const auto port = open_door({few});
  take_links_of(*few);
  const auto ben = start(options_of("ben"));
  std::string problem;
  const auto call = [&] { return ben->connect("ada", "127.0.0.1", port, milliseconds(5000), problem); };
  const plain_end first(call());
  plain_end second(call());
  const plain_end one(next_link());
  const plain_end two(next_link());
  EXPECT_EQ(call(), -1);
  second.close();
  EXPECT_EQ(two.read(1), "");
  EXPECT_TRUE(wait_until([&] { return few->counts().open == 1; }));
  const plain_end third(call());
  EXPECT_GE(third.get(), 0) << problem;
}

TEST_F(LinkRefusal, OfHundredsWhoSayNothingInBoundedMemory) {
  constexpr std::size_t silent = 300;
  const auto before_kib = resident_kib();
  std::vector<raw_socket> peers;
  for (std::size_t i = 0; i < silent; ++i) {
    peers.emplace_back(port_);
    if (i % 2 == 1) // some of them begin
      peers.back().send(client_hello_begin());
  }
  const auto ben = start(options_of("ben"));
  std::string problem;
  const plain_end among_them(ben->connect("ada", "127.0.0.1", port_, milliseconds(5000), problem));
  EXPECT_GE(among_them.get(), 0) << "a host gets through: " << problem;
  EXPECT_LE(door_->counts().shaking_hands, 256U);
  EXPECT_TRUE(wait_until([&] { return door_->counts().refused == silent; })) << door_->counts().refused;
  std::string received;
  for (const auto& peer : peers)
    EXPECT_TRUE(peer.wait_for_end(received));
  EXPECT_EQ(door_->counts().shaking_hands, 0U);
  EXPECT_EQ(lines().size(), 20U) << "and no line for each";
#ifndef __SANITIZE_THREAD__ // which keeps books of its own
  EXPECT_LT(resident_kib() - before_kib, silent * 128);
#endif
}

TEST_F(LinkRefusal, CostsNoCoreWhileThereIsNoDescriptorLeft) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const auto usual = std::exchange(limit.rlim_cur, rlim_t{256});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<std::unique_ptr<plain_end>> ballast;
  while (ballast.empty() || ballast.back()->get() >= 0)
    ballast.push_back(std::make_unique<plain_end>(::dup(STDERR_FILENO)));
  ballast.resize(ballast.size() - 2);
  const raw_socket peer(port_); // has what was left
  const auto before = std::clock();
  std::this_thread::sleep_for(milliseconds(1000));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 2) << "it tries again and again";
  EXPECT_EQ(door_->counts().refused, 0U) << "nobody has taken it";
  ballast.clear();
  ::setrlimit(RLIMIT_NOFILE, &(limit = {.rlim_cur = usual, .rlim_max = limit.rlim_max}));
  peer.send("plain");
  EXPECT_TRUE(says("it does not speak TLS"));
}

TEST(RefusalLines, AreTwentyAMinuteAndOneThatCountsTheOthers) {
  std::vector<std::string> passed;
  refusal_lines lines([&](const std::string& line) { passed.push_back(line); });
  const refusal_lines::time_point begin{std::chrono::hours(1)};
  for (int i = 0; i < 100; ++i)
    lines.add(begin + std::chrono::milliseconds(i), "one");
  EXPECT_EQ(passed.size(), 20U);
  lines.add(begin + std::chrono::seconds(61), "another");
  ASSERT_EQ(passed.size(), 22U);
  EXPECT_EQ(passed.at(20), "refused 80 more connections within a minute");
  EXPECT_EQ(passed.at(21), "another");
}

} // namespace
} // namespace dynamix::links
