/// What a proven host writes on a control link: CAF's frames, first through the guard, then as CAF reads their values.

#include "actors/aggregator/aggregator.hpp"
#include "actors/network/gateway.hpp"
#include "actors/network/message_guard.hpp"
#include "actors/packing.hpp"
#include "actors/system.hpp"
#include "actors/worker/worker.hpp"
#include "tests/fuzz/described_file.hpp"
#include "tests/fuzz/targets.hpp"

#include <optional>
#include <vector>

namespace dynamix::fuzz {
namespace {

namespace basp = caf::io::basp;
namespace atom = actors::atom;
using actors::message_guard;
using messages::message;

constexpr const char* cluster_text = R"(
[cluster]
name = "fuzz"
[security]
keys = "keys"
[arbitrator]
replicas = ["ada", "cy", "dot"]
[[host]]
name = "ben"
port = 1
[[host]]
name = "ada"
port = 2
roles = ["worker", "arbitrator"]
[[host]]
name = "cy"
port = 3
roles = ["arbitrator"]
[[host]]
name = "dot"
port = 4
roles = ["arbitrator"]
)";

template <class State>
struct named {
  static constexpr const char* name = State::name;
};

/// ada, with whom ben, a worker, or cy, a replica, is linked.
struct called_host {
  called_host() : config(cluster::derive_timeouts(5000)), system(config) {
    const auto read = cluster::parse_cluster_text(cluster_text, "fuzz.toml");
    require(read.errors.empty(), "the cluster of the links");
    rules = std::make_shared<actors::authority>(read.file, "ada");
    add<actors::gateway_state>();
    add<actors::aggregator_state>();
    add<actors::worker_state>();
    add<actors::store_state>();
  }

  template <class State>
  void add() {
    const auto made =
        system.spawn([](caf::stateful_actor<named<State>>*) -> caf::behavior { return {[](caf::ok_atom) {}}; });
    system.registry().put(made.id(), made);
    ids.push_back(made.id());
  }

  actors::system_config config;
  caf::actor_system system;
  std::shared_ptr<const actors::authority> rules;
  std::shared_ptr<actors::refused_messages> refused = std::make_shared<actors::refused_messages>();
  std::vector<caf::actor_id> ids; ///< of the actors that may be meant
};

called_host& ada() {
  static auto* at = new called_host; // CAF's threads outlive everything else
  return *at;
}

template <class T>
void require_valid(const caf::message& content, std::size_t at) {
  if (!content.match_element<message<T>>(at))
    return;
  const auto& value = content.get_as<message<T>>(at);
  require(!value || messages::validate(*value).empty(), "what is accepted is valid");
}

/// ben's own, which has rank 0; cy has no worker.
template <class T>
void require_own(const caf::message& content, bool of_ben) {
  if (content.size() < 2 || !content.match_element<message<T>>(1))
    return;
  const auto& value = content.get_as<message<T>>(1);
  require(of_ben && value && value->rank == 0, "a worker speaks for its own rank");
}

void take(const basp::header& header, const std::vector<char>& payload, bool of_ben) {
  caf::binary_deserializer source(ada().system, payload);
  caf::node_id from;
  caf::node_id to;
  std::vector<caf::strong_actor_ptr> stages;
  caf::message content;
  if ((header.operation == basp::message_type::routed_message && source(from, to)) || source(stages, content))
    return; // CAF takes no notice of it
  require(stages.empty() && !header.has(basp::header::named_receiver_flag), "only for an actor that was told of");
  for (std::size_t at = 0; at < content.size(); ++at) {
    require(!content.match_element<caf::exit_msg>(at) && !content.match_element<caf::down_msg>(at), "ends of nobody");
    require_valid<messages::hello>(content, at);
    require_valid<messages::welcome>(content, at);
    require_valid<messages::decision>(content, at);
    require_valid<messages::placement>(content, at);
    require_valid<messages::window_report>(content, at);
    require_valid<messages::shard_window>(content, at);
    require_valid<messages::store_operation>(content, at);
  }
  if (caf::make_message_id(header.operation_data).is_response())
    return;
  require_own<messages::window_report>(content, of_ben);
  require_own<messages::heartbeat>(content, of_ben);
  require_own<messages::absence>(content, of_ben);
}

template <class... Content>
void write(std::string& text, basp::header header, const Content&... content) {
  std::vector<char> payload;
  caf::binary_serializer body(ada().system, payload);
  if constexpr (sizeof...(content) > 0)
    require(!body(content...), "an example can be written");
  header.payload_len = static_cast<std::uint32_t>(payload.size());
  std::vector<char> bytes;
  caf::binary_serializer head(ada().system, bytes);
  require(!head(header), "an example's header can be written");
  text.append(bytes.begin(), bytes.end()).append(payload.begin(), payload.end());
}

/// A message to the actor of this place among the called host's, as CAF writes it.
template <class T, class Word, class... Handle>
void write_message(std::string& text, std::size_t to, Word word, T value, const std::string& handle_type = "",
                   const Handle&... handle) {
  const auto types = std::string("@<>+@atom+") + caf::type_name<message<T>>::value + handle_type;
  write(text, {basp::message_type::direct_message, 0, 0, 0, 9, to}, std::uint8_t{0}, std::uint16_t{0}, types,
        static_cast<caf::atom_value>(word), actors::pack(std::move(value)), handle...);
}

} // namespace

std::size_t read_control(byte_span bytes) {
  if (bytes.empty())
    return 0;
  const bool of_ben = (bytes[0] & 1) == 0;
  message_guard guard(ada().system, ada().rules, ada().refused);
  const auto link = caf::io::connection_handle::from_int(1);
  guard.add(link, {.host = of_ben ? "ben" : "cy", .called = (bytes[0] & 2) != 0});
  std::size_t passed = 0;
  std::optional<basp::header> announced;
  for (std::size_t at = 1; at < bytes.size();) {
    const auto size = announced ? announced->payload_len : basp::header_size;
    if (bytes.size() - at < size)
      break;
    const std::vector<char> frame(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                  bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    const auto found = guard.judge(link, announced ? &*announced : nullptr, frame);
    if (found == message_guard::verdict::cut)
      break;
    if (announced) {
      const bool is_message = announced->operation == basp::message_type::direct_message ||
                              announced->operation == basp::message_type::routed_message;
      if (found == message_guard::verdict::pass && is_message)
        take(*announced, frame, of_ben);
      passed += found == message_guard::verdict::pass ? 1 : 0;
      announced.reset();
      continue;
    }
    basp::header header;
    caf::binary_deserializer source(ada().system, frame);
    require(!source(header), "a header that was judged can be read");
    if (header.payload_len > 0) {
      const auto& ids = ada().ids; // which a fuzzer cannot know
      header.dest_actor = header.dest_actor < ids.size() ? ids[header.dest_actor] : header.dest_actor;
      announced = header;
    }
  }
  return passed;
}

target control_target() {
  return {"control", [](byte_span bytes) { read_control(bytes); }};
}

std::map<std::string, kept_example> control_examples() {
  constexpr std::size_t gateway = 0;
  constexpr std::size_t aggregator = 1;
  constexpr std::size_t worker = 2;
  constexpr std::size_t store = 3;
  const auto process = caf::make_node_id(4711, "0123456789abcdef0123456789abcdef01234567");
  require(static_cast<bool>(process), "a process");
  const auto begin = [&](char who) {
    std::string text(1, who);
    write(text, {basp::message_type::client_handshake, 0, 0, 0, 0, 0}, *process);
    return text;
  };
  auto of_worker = begin(0);
  const auto handle = std::string("+") + caf::type_name<actors::worker_actor>::value;
  messages::hello hello{.cluster = "fuzz", .host = "ben", .incarnation = 1, .heartbeat_interval_ms = 1000};
  write_message(of_worker, gateway, atom::hello_v, hello, handle, caf::actor_id{9}, *process);
  write_message(of_worker, aggregator, atom::beat_v, messages::heartbeat{.rank = 0, .incarnation = 1});
  write_message(of_worker, aggregator, atom::report_v,
                messages::window_report{.host = "ben", .rank = 0, .generation = 1, .window = 1});
  write_message(of_worker, aggregator, atom::farewell_v, messages::farewell{.host = "ben", .decisions = {}});
  write_message(of_worker, store, atom::apply_v,
                messages::store_operation{.verb = messages::store_verb::set, .keys = {"g/present/0"}, .value = {1, 2}});
  auto of_replica = begin(1);
  write_message(of_replica, gateway, atom::finish_v,
                messages::farewell{.host = "cy", .reason = "over", .decisions = {}});
  write_message(of_replica, worker, atom::decide_v,
                messages::decision{.key = {.term = 1, .window = 1}, .generation = 1, .batch = 64});
  return {{"worker", {of_worker, 6}}, {"replica", {of_replica, 3}}};
}

} // namespace dynamix::fuzz
