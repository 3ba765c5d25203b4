/// What a host with keys can do that lies: each attack does what it is meant to where nobody looks at what proven hosts
/// say, and nothing where somebody does.

#include "actors/network/guarded_broker.hpp"
#include "tests/unit/actors/linked_host.hpp"
#include "tests/unit/links/raw_client.hpp"
#include "tests/unit/links/told_lines.hpp"
#include "tests/unit/parsed_cluster.hpp"

#include <caf/io/all.hpp>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::actors::testing {
namespace {

namespace basp = caf::io::basp;

/// What an actor of the attacked host has heard, by its words.
class heard {
public:
  void add(const std::string& word) {
    const std::scoped_lock lock(mutex_);
    ++words_[word];
  }
  int count(const std::string& word) const {
    const std::scoped_lock lock(mutex_);
    const auto found = words_.find(word);
    return found == words_.end() ? 0 : found->second;
  }

private:
  mutable std::mutex mutex_;
  std::map<std::string, int> words_;
};

struct aggregator_stand_in_state {
  static constexpr const char* name = "aggregator";
};
using aggregator_stand_in = aggregator_actor::extend_with<greeter_actor>;

/// The handle that the aggregator answers with; null for its own.
class handed_out {
public:
  void set(const caf::strong_actor_ptr& handle) {
    const std::scoped_lock lock(mutex_);
    handle_ = handle;
  }
  caf::strong_actor_ptr get() const {
    const std::scoped_lock lock(mutex_);
    return handle_;
  }

private:
  mutable std::mutex mutex_;
  caf::strong_actor_ptr handle_;
};

/// Takes whatever comes to an aggregator, and answers a hello with the handle that a test wants to be attacked.
aggregator_stand_in::behavior_type stand_in(aggregator_stand_in::stateful_pointer<aggregator_stand_in_state> self,
                                            std::shared_ptr<heard> received, std::shared_ptr<handed_out> handed) {
  self->set_down_handler(
      [received](const caf::down_msg& down) { received->add("end of " + caf::to_string(down.source)); });
  return {
      [received](atom::report, const message<messages::window_report>&) { received->add("report"); },
      [received](atom::evaluation, const message<messages::evaluation_report>&) { received->add("evaluation"); },
      [received](atom::beat, const message<messages::heartbeat>& sign) {
        received->add(sign && sign->rank == 0 ? "own beat" : "beat");
        return atom::beat_v;
      },
      [received](atom::absent, const message<messages::absence>&) { received->add("absent"); },
      [](atom::settle) { return atom::settle_v; },
      [received](atom::farewell, const message<messages::farewell>&) {
        received->add("farewell");
        return atom::farewell_v;
      },
      [self, received, handed](atom::hello, const message<messages::hello>&, const worker_actor& caller)
          -> caf::result<message<messages::welcome>, aggregator_actor> {
        received->add("hello");
        self->monitor(caller);
        const auto target = handed->get();
        return {pack(messages::welcome{}),
                caf::actor_cast<aggregator_actor>(target ? target : caf::actor_cast<caf::strong_actor_ptr>(self))};
      },
  };
}

struct worker_stand_in_state {
  static constexpr const char* name = "worker";
};

worker_actor::behavior_type worker_stand_in(worker_actor::stateful_pointer<worker_stand_in_state>,
                                            std::shared_ptr<heard> received) {
  return {
      [received](atom::decide, const message<messages::decision>&) { received->add("decide"); },
      [received](atom::place, const message<messages::placement>&, const store_actor&) { received->add("place"); },
      [received](atom::closed, const message<messages::generation_notice>&) { received->add("closed"); },
      [received](atom::stop) { received->add("stop"); },
  };
}

/// ada and cy are replicas of the arbitrator with dot; ada and ben train.
cluster::cluster_file trio() {
  return parsed_cluster(R"(
[cluster]
name = "pair"
[security]
keys = "keys"
[arbitrator]
replicas = ["ada", "cy", "dot"]
[[host]]
name = "ben"
port = 7400
[[host]]
name = "ada"
port = 7401
roles = ["worker", "arbitrator"]
[[host]]
name = "cy"
port = 7402
roles = ["arbitrator"]
[[host]]
name = "dot"
port = 7403
roles = ["arbitrator"]
)");
}

/// ada, who is attacked, and ben, who has proven its name to ada and lies.
class attacked {
public:
  attacked(const std::string& keys, bool guarded) {
    const auto file = trio();
    ada_ = std::make_unique<one_host>(
        "ada", keys, std::set<std::string>{"ben", "cy"}, [](const std::string&) {},
        guarded ? std::make_shared<authority>(file, "ada") : nullptr);
    ben_ = std::make_unique<one_host>("ben", keys, std::set<std::string>{}, [](const std::string&) {});
    aggregator_ = ada_->system().spawn(stand_in, received, handed_);
    worker_ = ada_->system().spawn(worker_stand_in, received);
    meeting_ = ada_->system().spawn(store, std::size_t{2});
    caf::anon_send(caf::actor_cast<gateway_local>(ada_->own()), atom::serve_v,
                   caf::actor_cast<greeter_actor>(aggregator_));
    port = ada_->publish();
    gateway = ben_->reach("ada", port);
    EXPECT_TRUE(gateway) << ben_->problem();
  }
  ~attacked() {
    for (const auto& each : {caf::actor_cast<caf::actor>(aggregator_), caf::actor_cast<caf::actor>(worker_),
                             caf::actor_cast<caf::actor>(meeting_)})
      caf::anon_send_exit(each, caf::exit_reason::kill);
  }

  /// An actor of ada's as ben sees it; the aggregator where none is named. Null: ada has refused, or does not answer.
  aggregator_actor hear_of(const caf::strong_actor_ptr& target = {}, const std::string& as = "ben") {
    handed_->set(target);
    const auto own = ben_->system().spawn(worker_stand_in, std::make_shared<heard>());
    aggregator_actor found;
    caf::scoped_actor self(ben_->system());
    messages::hello said{.cluster = "pair", .host = as, .incarnation = 1, .heartbeat_interval_ms = 1000};
    const auto before = refused();
    bool over = false;
    for (int tries = 0; !over && tries < 20; ++tries)
      self->request(gateway, std::chrono::seconds(3), atom::hello_v, pack(said), own)
          .receive(
              [&](const message<messages::welcome>&, const aggregator_actor& aggregator) {
                found = aggregator;
                over = true;
              },
              [&](const caf::error& error) {
                over = error != caf::sec::request_timeout || (tries > 0 && refused() > before);
              });
    caf::anon_send_exit(own, caf::exit_reason::kill);
    return found;
  }
  worker_actor worker_of_ada() {
    return caf::actor_cast<worker_actor>(hear_of(caf::actor_cast<caf::strong_actor_ptr>(worker_)));
  }
  /// The store in which a generation meets, as ben sees it.
  store_actor meeting_of_ada() {
    return caf::actor_cast<store_actor>(hear_of(caf::actor_cast<caf::strong_actor_ptr>(meeting_)));
  }
  /// What an operation of ada's own yields there; of ben's only what is left of it is looked at.
  messages::store_result in_meeting(messages::store_verb verb, const std::string& key,
                                    std::vector<std::uint8_t> value) {
    caf::scoped_actor self(ada_->system());
    messages::store_result result;
    const messages::store_operation said{.verb = verb, .keys = {key}, .value = std::move(value)};
    self->request(meeting_, patience, atom::apply_v, pack(said))
        .receive([&](const message<messages::store_result>& answer) { result = *answer; },
                 [](const caf::error& error) { ADD_FAILURE() << caf::to_string(error); });
    return result;
  }
  /// Everything that ben has sent before has come, and ada still answers to what ben may say.
  bool settles() {
    const auto aggregator = hear_of();
    if (!aggregator)
      return false;
    caf::scoped_actor self(ben_->system());
    bool answered = false;
    self->request(aggregator, patience, atom::beat_v, pack(messages::heartbeat{.rank = 0, .incarnation = 1}))
        .receive([&](atom::beat) { answered = true; }, [](const caf::error&) {});
    return answered;
  }
  template <class... Content>
  bool hears(const std::string& word, const aggregator_actor& target, const Content&... content) {
    caf::scoped_actor self(ben_->system());
    self->send(target, content...);
    EXPECT_TRUE(settles());
    return received->count(word) > 0;
  }

  /// Whether something that ben has said comes true before ada refuses it.
  template <class Condition>
  bool comes_through(const Condition& condition) {
    wait_until([&] { return condition() || refused() > 0; });
    return condition();
  }
  bool hears_of(const std::string& word) {
    return comes_through([&] { return received->count(word) > 0; });
  }

  const aggregator_stand_in& aggregator() const { return aggregator_; }
  one_host& ada() { return *ada_; }
  one_host& ben() { return *ben_; }
  std::uint64_t refused() const { return ada_->network().refused(); }

  std::shared_ptr<heard> received = std::make_shared<heard>();
  std::uint16_t port = 0;
  gateway_actor gateway;

private:
  std::unique_ptr<one_host> ada_;
  std::unique_ptr<one_host> ben_;
  std::shared_ptr<handed_out> handed_ = std::make_shared<handed_out>();
  aggregator_stand_in aggregator_;
  worker_actor worker_;
  store_actor meeting_;
};

/// A connection of ben's to ada over which the test writes CAF's frames itself.
class raw_frames {
public:
  explicit raw_frames(attacked& host) : system_(host.ben().system()) {
    std::string problem;
    plain_ = host.ben().pump().connect("ada", "127.0.0.1", host.port, std::chrono::seconds(10), problem);
    EXPECT_GE(plain_, 0) << problem;
  }
  raw_frames(const raw_frames&) = delete;
  ~raw_frames() { ::close(plain_); }

  template <class... Content>
  void send(basp::header header, const Content&... content) {
    std::vector<char> payload;
    caf::binary_serializer body(system_, payload);
    if constexpr (sizeof...(content) > 0) {
      EXPECT_FALSE(body(content...));
    }
    if (!payload.empty())
      header.payload_len = static_cast<std::uint32_t>(payload.size());
    std::vector<char> bytes;
    caf::binary_serializer head(system_, bytes);
    EXPECT_FALSE(head(header));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    EXPECT_EQ(::send(plain_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  /// As many bytes of zero as the connection takes.
  void send_zeros(std::size_t bytes) {
    const std::vector<char> zeros(65536);
    while (bytes > 0) {
      pollfd waiting{.fd = plain_, .events = POLLOUT, .revents = 0};
      if (::poll(&waiting, 1, 1000) != 1)
        return;
      const auto sent = ::send(plain_, zeros.data(), std::min(bytes, zeros.size()), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0)
        return;
      bytes -= static_cast<std::size_t>(sent);
    }
  }
  void shake_hands(const caf::node_id& as) { send({basp::message_type::client_handshake, 0, 0, 0, 0, 0}, as); }
  /// Whether ada closes the connection.
  bool ends() const {
    std::array<char, 4096> ignored{};
    pollfd waiting{.fd = plain_, .events = POLLIN, .revents = 0};
    while (::poll(&waiting, 1, 30000) == 1)
      if (::recv(plain_, ignored.data(), ignored.size(), MSG_DONTWAIT) == 0)
        return true;
    return false;
  }

private:
  caf::actor_system& system_;
  int plain_ = -1;
};

class LyingPeer : public ::testing::Test {
protected:
  LyingPeer() { EXPECT_EQ(links::make_keys(keys_.path(), links::testing::request_of({"ada", "ben", "cy"})), ""); }

  /// `attack` tells whether it came through.
  template <class Attack>
  void expect_stopped(const Attack& attack) {
    {
      attacked unguarded(keys_.path(), false);
      EXPECT_TRUE(attack(unguarded)) << "where nobody looks it is an attack";
      EXPECT_EQ(unguarded.refused(), 0U);
    }
    attacked guarded(keys_.path(), true);
    EXPECT_FALSE(attack(guarded));
    EXPECT_GE(guarded.refused(), 1U);
    EXPECT_TRUE(guarded.settles()) << "ada goes on";
  }

  links::testing::temporary_keys keys_;
};

TEST_F(LyingPeer, MaySayWhatIsItsOwn) {
  attacked host(keys_.path(), true);
  const auto aggregator = host.hear_of();
  ASSERT_TRUE(aggregator);
  messages::window_report report{.host = "ben", .rank = 0, .generation = 1, .window = 1};
  EXPECT_TRUE(host.hears("report", aggregator, atom::report_v, pack(report)));
  EXPECT_TRUE(
      host.hears("farewell", aggregator, atom::farewell_v, pack(messages::farewell{.host = "ben", .decisions = {}})));
  EXPECT_TRUE(host.hears("own beat", aggregator, atom::beat_v, pack(messages::heartbeat{.rank = 0, .incarnation = 1})));
  EXPECT_EQ(host.refused(), 0U);
}

TEST_F(LyingPeer, EndsAndKillsActors) {
  for (const auto reason : {caf::exit_reason::user_shutdown, caf::exit_reason::kill})
    expect_stopped([&](attacked& host) {
      caf::anon_send_exit(host.gateway, reason);
      caf::scoped_actor self(host.ben().system());
      self->send_exit(host.gateway, reason);
      return !host.hear_of();
    });
}

TEST_F(LyingPeer, ReportsForOthers) {
  expect_stopped([](attacked& host) {
    messages::window_report report{.host = "ada", .rank = 1, .generation = 1, .window = 1};
    return host.hears("report", host.hear_of(), atom::report_v, pack(report));
  });
  expect_stopped([](attacked& host) {
    return host.hears("beat", host.hear_of(), atom::beat_v, pack(messages::heartbeat{.rank = 1, .incarnation = 1}));
  });
  expect_stopped([](attacked& host) {
    return host.hears("absent", host.hear_of(), atom::absent_v, pack(messages::absence{.rank = 1, .incarnation = 1}));
  });
  expect_stopped([](attacked& host) { return static_cast<bool>(host.hear_of({}, "ada")); });
}

TEST_F(LyingPeer, SaysFarewellAsAnother) {
  const auto leaves = [](attacked& host, const std::string& as, std::uint32_t rank) {
    const messages::farewell said{.host = as, .rank = rank, .decisions = {}};
    return host.hears("farewell", host.hear_of(), atom::farewell_v, pack(said));
  };
  expect_stopped([&](attacked& host) { return leaves(host, "ada", 0); });
  expect_stopped([&](attacked& host) { return leaves(host, "ben", 1); });
  expect_stopped([&](attacked& host) { return leaves(host, "ada", 1); });
  attacked host(keys_.path(), true);
  EXPECT_TRUE(leaves(host, "ben", 0)) << "its own it may say";
  EXPECT_EQ(host.refused(), 0U);
}

TEST_F(LyingPeer, SaysWhereAnotherIsFound) {
  using enum messages::store_verb;
  const std::vector<std::uint8_t> here = {1};
  const std::vector<std::uint8_t> elsewhere = {2};
  const std::string of_ada = "generation-4/present/1";
  const std::string of_ben = "generation-4/present/0";
  const auto says = [&](attacked& host, messages::store_verb verb, std::vector<std::string> keys) {
    EXPECT_EQ(host.in_meeting(set, of_ada, here).status, messages::store_status::ok);
    caf::scoped_actor self(host.ben().system());
    const messages::store_operation said{
        .verb = verb, .keys = std::move(keys), .value = verb == set ? elsewhere : std::vector<std::uint8_t>()};
    self->send(host.meeting_of_ada(), atom::apply_v, pack(said));
    EXPECT_TRUE(host.settles());
    return host.in_meeting(get, of_ada, {}).value != here ||
           host.in_meeting(check, "generation-4/present/9", {}).number;
  };
  expect_stopped([&](attacked& host) { return says(host, set, {of_ada}); });
  expect_stopped([&](attacked& host) { return says(host, remove, {of_ada}); });
  expect_stopped([&](attacked& host) { return says(host, set, {"generation-4/present/9"}); });
  attacked host(keys_.path(), true);
  EXPECT_FALSE(says(host, set, {of_ben}));
  EXPECT_EQ(host.in_meeting(get, of_ben, {}).value, elsewhere) << "its own it may say";
  EXPECT_EQ(host.refused(), 0U);
}

TEST_F(LyingPeer, DecidesAndPlaces) {
  expect_stopped([](attacked& host) {
    const messages::decision forged{.key = {.term = 1ULL << 62, .window = 1}, .generation = 1, .batch = 8};
    caf::scoped_actor self(host.ben().system());
    self->send(host.worker_of_ada(), atom::decide_v, pack(forged));
    return host.hears_of("decide");
  });
  expect_stopped([](attacked& host) {
    caf::scoped_actor self(host.ben().system());
    self->send(host.worker_of_ada(), atom::stop_v);
    return host.hears_of("stop");
  });
}

TEST_F(LyingPeer, EndsTheRunForAReplica) {
  expect_stopped([](attacked& host) {
    caf::anon_send(caf::actor_cast<gateway_local>(host.ada().own()), atom::redirect_v, std::string("cy"));
    caf::scoped_actor self(host.ben().system());
    const messages::farewell said{.host = "cy", .reason = "over", .decisions = {}};
    self->request(host.gateway, patience, atom::finish_v, pack(said));
    const bool ended = host.comes_through([&] { return host.ada().events()->take().arbitrator.has_value(); });
    const auto greeter = caf::actor_cast<greeter_actor>(host.aggregator());
    caf::anon_send(caf::actor_cast<gateway_local>(host.ada().own()), atom::serve_v, greeter);
    return ended;
  });
}

TEST_F(LyingPeer, HandsOverActorsOfOthers) {
  expect_stopped([](attacked& host) {
    caf::scoped_actor self(host.ben().system());
    messages::hello said{.cluster = "pair", .host = "ben", .incarnation = 1, .heartbeat_interval_ms = 1000};
    const auto of_ada = host.worker_of_ada(); // what is decided for ben would go to ada
    const auto before = host.received->count("hello");
    self->request(host.gateway, patience, atom::hello_v, pack(said), of_ada);
    return host.comes_through([&] { return host.received->count("hello") > before; });
  });
}

constexpr std::uint32_t links_most = 63; ///< of a host, but for the one that it has
constexpr std::size_t memory_kib_most = 65536;

/// As many links as a host may have, each with 32 bytes that claim as much as a message may have.
TEST_F(LyingPeer, ClaimsMemoryOnManyLinks) {
  const auto claims = [](attacked& host, std::uint32_t links) {
    const auto before = links::testing::resident_kib();
    std::vector<std::unique_ptr<raw_frames>> all;
    for (std::uint32_t link = 0; link < links; ++link) {
      all.push_back(std::make_unique<raw_frames>(host));
      all.back()->send({basp::message_type::client_handshake, 0, 30U << 20, 0, 0, 0});
    }
    wait_until(
        [&] { return host.refused() >= links || links::testing::resident_kib() > before + 2 * memory_kib_most; });
    return links::testing::resident_kib() > before + memory_kib_most;
  };
  {
    attacked unguarded(keys_.path(), false);
    EXPECT_TRUE(claims(unguarded, 8));
  }
  attacked guarded(keys_.path(), true);
  EXPECT_FALSE(claims(guarded, links_most));
  EXPECT_GE(guarded.refused(), links_most);
  EXPECT_TRUE(guarded.settles());
}

/// The same with bytes, of messages that never come to an end.
TEST_F(LyingPeer, FillsMemoryOnManyLinks) {
  attacked host(keys_.path(), true);
  const auto before = links::testing::resident_kib();
  std::vector<std::unique_ptr<raw_frames>> all;
  for (std::uint32_t link = 0; link < links_most; ++link) {
    all.push_back(std::make_unique<raw_frames>(host));
    all.back()->shake_hands(host.ben().system().node());
    all.back()->send({basp::message_type::direct_message, 0, 7U << 20, 0, 1, 1});
    all.back()->send_zeros((7U << 20) - 1);
  }
  EXPECT_TRUE(wait_until([&] { return host.refused() >= links_most - 3; }));
  EXPECT_LT(links::testing::resident_kib(), before + memory_kib_most);
  EXPECT_TRUE(host.settles());
}

TEST_F(LyingPeer, MaySendWhatIsLargeAndItsOwn) {
  attacked host(keys_.path(), true);
  messages::store_operation large{.verb = messages::store_verb::check, .value = {}};
  for (std::uint32_t key = 0; key < messages::max_store_keys; ++key)
    large.keys.push_back(fmt::format("{:0>200}", key));
  const auto meeting = host.meeting_of_ada();
  caf::scoped_actor self(host.ben().system());
  int answers = 0;
  for (int round = 0; round < 40; ++round) // more, over time, than it may make ada hold at once
    self->request(meeting, patience, atom::apply_v, pack(large))
        .receive([&](const message<messages::store_result>&) { ++answers; },
                 [](const caf::error& error) { ADD_FAILURE() << caf::to_string(error); });
  EXPECT_EQ(answers, 40);
  EXPECT_EQ(host.refused(), 0U);
}

TEST_F(LyingPeer, StoresInCafsOwnServices) {
  expect_stopped([](attacked& host) {
    const auto service = caf::atom("ConfigServ");
    const auto broker = host.ben().system().middleman().named_broker<guarded_broker>(caf::atom("LinkBASP"));
    caf::scoped_actor self(host.ben().system());
    self->send(broker, caf::forward_atom::value, host.ada().system().node(), service,
               caf::make_message(caf::put_atom::value, std::string("ballast"), caf::make_message(std::string("kept"))));
    EXPECT_TRUE(host.settles());
    caf::scoped_actor at_ada(host.ada().system());
    const auto found = host.ada().system().registry().get<caf::strong_actor_ptr>(service);
    at_ada->send(caf::actor_cast<caf::actor>(found), caf::get_atom::value, std::string("ballast"));
    bool kept = false;
    at_ada->receive([&](const std::string&, const caf::message& value) { kept = !value.empty(); },
                    [&](caf::ok_atom, const std::string&, const caf::message& value) { kept = !value.empty(); },
                    caf::after(patience) >> [] { ADD_FAILURE() << "no answer"; });
    return kept;
  });
}

TEST_F(LyingPeer, TellsTheEndOfAnActorOfAnother) {
  one_host cy("cy", keys_.path(), {}, [](const std::string&) {});
  expect_stopped([&](attacked& host) {
    const auto lives = cy.system().spawn(worker_stand_in, std::make_shared<heard>());
    const auto gateway = cy.reach("ada", host.port);
    caf::scoped_actor self(cy.system());
    messages::hello said{.cluster = "pair", .host = "cy", .incarnation = 1, .heartbeat_interval_ms = 1000};
    self->request(gateway, patience, atom::hello_v, pack(said), lives)
        .receive([](const message<messages::welcome>&, const aggregator_actor&) {},
                 [](const caf::error& error) { ADD_FAILURE() << caf::to_string(error); });
    system_config config(cluster::derive_timeouts(5000));
    caf::actor_system other(config);
    raw_frames forged(host);
    forged.shake_hands(other.node());
    forged.send({basp::message_type::down_message, 0, 0, 0, lives.id(), caf::invalid_actor_id}, cy.system().node(),
                host.ada().system().node(), caf::make_error(caf::exit_reason::user_shutdown));
    const auto told = "end of " + caf::to_string(lives.address());
    const bool believed = host.hears_of(told);
    caf::anon_send_exit(lives, caf::exit_reason::kill);
    return believed;
  });
}

TEST_F(LyingPeer, IsCutWhereItsFramesAreNone) {
  system_config config(cluster::derive_timeouts(5000));
  caf::actor_system one(config);
  caf::actor_system two(config);
  attacked host(keys_.path(), true);
  const auto node = host.ben().system().node();
  const std::map<std::string, std::function<void(raw_frames&)>> attempts = {
      {"a message before a handshake",
       [&](raw_frames& to) {
         to.send({basp::message_type::monitor_message, 0, 0, 0, 0, 1}, node, host.ada().system().node());
       }},
      {"a claim of four gigabytes",
       [&](raw_frames& to) {
         to.shake_hands(one.node());
         to.send({basp::message_type::direct_message, 0, 0xffffffff, 0, 1, 1});
       }},
      {"a second handshake",
       [&](raw_frames& to) {
         to.shake_hands(one.node());
         to.shake_hands(two.node());
       }},
      {"ada's own process", [&](raw_frames& to) { to.shake_hands(host.ada().system().node()); }},
      {"the handshake of who was called",
       [&](raw_frames& to) {
         to.send({basp::message_type::server_handshake, 0, 0, 3, 0, 0}, one.node());
       }},
      {"no operation",
       [&](raw_frames& to) {
         to.send({static_cast<basp::message_type>(99), 0, 0, 0, 0, 0});
       }},
  };
  std::uint64_t refused = 0;
  for (const auto& [what, attempt] : attempts) {
    raw_frames to(host);
    attempt(to);
    EXPECT_TRUE(to.ends()) << what;
    EXPECT_EQ(host.refused(), ++refused) << what;
  }
  EXPECT_TRUE(host.settles());
}

} // namespace
} // namespace dynamix::actors::testing
