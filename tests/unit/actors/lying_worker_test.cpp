// What a worker with a valid key can say through a shard of where others are found.

#include "actors/network/message_guard.hpp"
#include "actors/packing.hpp"
#include "actors/system.hpp"

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

cluster::cluster_file file_of(int workers, const std::string& arbitrator) {
  auto text = "[cluster]\nname = \"x\"\n[security]\nkeys = \"keys\"\n[arbitrator]\n" + arbitrator +
              "\n[[host]]\nname = \"hub\"\nport = 7400\nroles = [\"arbitrator\"]\n";
  for (int i = 0; i < workers; ++i)
    text += fmt::format("[[host]]\nname = \"w{}\"\nport = {}\n", i, 7401 + i);
  const auto read = cluster::parse_cluster_text(text, "x.toml");
  for (const auto& error : read.errors)
    ADD_FAILURE() << to_string(error);
  return read.file;
}

/// The guard of a host, and one link to it.
class guarded_host {
public:
  guarded_host(const cluster::cluster_file& file, const std::string& host)
      : guard_(system_, std::make_shared<authority>(file, host), std::make_shared<refused_messages>()) {}
  void link(const std::string& host) {
    guard_.add(link_, {.host = host, .called = false});
    EXPECT_TRUE(passes({basp::message_type::client_handshake, 0, 0, 0, 0, 0}, caller_));
  }
  /// Whether the store of another process hears it, through this one.
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
  const caf::io::connection_handle link_ = caf::io::connection_handle::from_int(1);
  caf::node_id caller_ = *caf::make_node_id(4711, "0123456789abcdef0123456789abcdef01234567");
  caf::node_id other_ = *caf::make_node_id(4712, "0123456789abcdef0123456789abcdef01234567");
};

TEST(LyingWorker, OfATreeIsJudgedByTheShardThatItSpeaksThrough) {
  guarded_host shard(file_of(9, "topology = \"tree\"\nfanout = 3\nshards = [\"w0\", \"w3\", \"w6\"]\n"), "w0");
  shard.link("w1");
  EXPECT_TRUE(shard.passes_through(store_verb::set, "generation-1/present/1", "12"));
  EXPECT_TRUE(shard.passes_through(store_verb::get, "generation-1/present/2"));
  EXPECT_FALSE(shard.passes_through(store_verb::set, "generation-1/present/2", "12"));
  EXPECT_FALSE(shard.passes_through(store_verb::remove, "generation-1/present/8"));
}

} // namespace
} // namespace dynamix::actors
