// What a worker with a valid key can say of where it is found: at an address of its own, and of nobody else, to a store
// here and through a shard.

#include "actors/network/gateway.hpp"
#include "actors/network/message_guard.hpp"
#include "actors/packing.hpp"
#include "actors/system.hpp"
#include "cluster/places.hpp"
#include "tests/unit/parsed_cluster.hpp"

#include <caf/io/basp/all.hpp>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::actors {
namespace {

namespace basp = caf::io::basp;
using messages::store_verb;

cluster::cluster_file file_of(int workers, const std::string& arbitrator, const std::string& membership = "") {
  auto text = "[cluster]\nname = \"x\"\n" + membership + "[security]\nkeys = \"keys\"\n[arbitrator]\n" + arbitrator +
              "\n[[host]]\nname = \"hub\"\nport = 7400\nroles = [\"arbitrator\"]\n";
  for (int i = 0; i < workers; ++i)
    text += fmt::format("[[host]]\nname = \"w{}\"\nport = {}\n", i, 7401 + i);
  return cluster::with_places(parsed_cluster(text));
}

/// The guard of a host with a store, and one link to it.
class guarded_host {
public:
  guarded_host(const cluster::cluster_file& file, const std::string& host,
               std::shared_ptr<worker_names> names = nullptr)
      : guard_(system_, std::make_shared<authority>(file, host, std::move(names)),
               std::make_shared<refused_messages>()) {
    const auto made = system_.spawn(store, std::size_t{4});
    store_ = made->id();
    system_.registry().put(store_, caf::actor_cast<caf::strong_actor_ptr>(made));
  }
  ~guarded_host() {
    caf::anon_send_exit(system_.registry().get<caf::strong_actor_ptr>(store_), caf::exit_reason::kill);
    system_.registry().erase(store_);
  }
  void link(const std::string& host, const std::string& address) {
    guard_.add(link_, {.host = host, .called = false, .address = address});
    EXPECT_TRUE(passes({basp::message_type::client_handshake, 0, 0, 0, 0, 0}, caller_));
  }
  void unlink() { guard_.remove(link_); }
  /// Whether the store hears it, or that of another process through this one.
  bool passes(store_verb verb, const std::string& key, const std::string& value = "") {
    return passes({basp::message_type::direct_message, 0, 0, 0, 9, store_}, content(verb, key, value));
  }
  bool passes_through(store_verb verb, const std::string& key, const std::string& value = "") {
    return passes({basp::message_type::routed_message, 0, 0, 0, 9, 4711}, caller_, other_, content(verb, key, value));
  }

private:
  struct operation {
    std::uint8_t stages = 0;
    std::uint16_t number = 0;
    std::string types = std::string("@<>+@atom+") + caf::type_name<message<messages::store_operation>>::value;
    caf::atom_value word = atom::apply_v;
    message<messages::store_operation> said;
  };
  template <class Inspector>
  friend auto inspect(Inspector& with, operation& what) {
    return with(what.stages, what.number, what.types, what.word, what.said);
  }
  static operation content(store_verb verb, const std::string& key, const std::string& value) {
    return {.said = pack(messages::store_operation{
                .verb = verb, .keys = {key}, .value = std::vector<std::uint8_t>(value.begin(), value.end())})};
  }
  template <class... Content>
  bool passes(basp::header header, Content... content) {
    std::vector<char> payload;
    caf::binary_serializer body(system_, payload);
    EXPECT_FALSE(body(content...));
    header.payload_len = static_cast<std::uint32_t>(payload.size());
    std::vector<char> bytes;
    caf::binary_serializer head(system_, bytes);
    EXPECT_FALSE(head(header));
    return guard_.judge(link_, nullptr, bytes) == message_guard::verdict::pass &&
           guard_.judge(link_, &header, payload) == message_guard::verdict::pass;
  }

  system_config config_{cluster::derive_timeouts(5000)};
  caf::actor_system system_{config_};
  message_guard guard_;
  caf::actor_id store_ = 0;
  const caf::io::connection_handle link_ = caf::io::connection_handle::from_int(1);
  caf::node_id caller_ = *caf::make_node_id(4711, "0123456789abcdef0123456789abcdef01234567");
  caf::node_id other_ = *caf::make_node_id(4712, "0123456789abcdef0123456789abcdef01234567");
};

/// As exchange::peer_links announces it: a port before the text.
std::string found_at(const std::string& text) {
  return "\x1c\xe8" + text;
}

class LyingGuest : public ::testing::Test {
protected:
  LyingGuest() { names->give(1, "guest"); }
  const cluster::cluster_file file = file_of(1, "", "membership = \"open\"\nworkers_max = 3\n");
  const std::shared_ptr<worker_names> names = std::make_shared<worker_names>(file);
};

TEST_F(LyingGuest, SendsTheOthersToNoAddressButItsOwn) {
  guarded_host hub(file, "hub", names);
  hub.link("guest", "10.0.0.9");
  const std::string own = "generation-1/present/1";
  for (const auto* text : {"guest 10.0.0.9", "guest ::ffff:10.0.0.9", "guest guest"})
    EXPECT_TRUE(hub.passes(store_verb::set, own, found_at(text))) << text;
  for (const auto* text : {"guest 10.0.0.7", "guest 127.0.0.1", "guest hub", "guest database.example", "guest ",
                           "guest", "w0 10.0.0.9", "other 10.0.0.9", "guest 10.0.0.9 ", " 10.0.0.9"})
    EXPECT_FALSE(hub.passes(store_verb::set, own, found_at(text))) << text;
  EXPECT_FALSE(hub.passes(store_verb::set, "generation-1/present/0", found_at("guest 10.0.0.9")));
  EXPECT_TRUE(hub.passes(store_verb::set, "generation-1/plan", "whatever"));
  EXPECT_TRUE(hub.passes(store_verb::remove, own));
}

TEST_F(LyingGuest, IsKnownByItsLinksWhileThereAreAny) {
  guarded_host hub(file, "hub", names);
  EXPECT_EQ(names->why_elsewhere("guest", "10.0.0.7"), "") << "it has no link";
  hub.link("guest", "10.0.0.9");
  EXPECT_EQ(names->why_elsewhere("guest", "10.0.0.7"),
            "host guest says that the others reach it at 10.0.0.7, and its connection comes from 10.0.0.9; its "
            "--address must be the latter, or its own name where that resolves");
  hub.unlink();
  EXPECT_EQ(names->why_elsewhere("guest", "10.0.0.7"), "");
}

TEST_F(LyingGuest, MayCallALoopbackAddressByItsName) {
  guarded_host hub(file, "hub", names);
  hub.link("guest", "127.0.0.1");
  EXPECT_EQ(names->why_elsewhere("guest", "localhost"), "");
  EXPECT_NE(names->why_elsewhere("guest", "127.0.0.2"), "");
}

TEST(LyingWorker, OfATreeIsJudgedByTheShardThatItSpeaksThrough) {
  guarded_host shard(file_of(9, "topology = \"tree\"\nfanout = 3\nshards = [\"w0\", \"w3\", \"w6\"]\n"), "w0");
  shard.link("w1", "10.0.0.2");
  EXPECT_TRUE(shard.passes_through(store_verb::set, "generation-1/present/1", found_at("")));
  EXPECT_TRUE(shard.passes_through(store_verb::get, "generation-1/present/2"));
  EXPECT_FALSE(shard.passes_through(store_verb::set, "generation-1/present/2", found_at("")));
  EXPECT_FALSE(shard.passes_through(store_verb::remove, "generation-1/present/8"));
}

} // namespace
} // namespace dynamix::actors
