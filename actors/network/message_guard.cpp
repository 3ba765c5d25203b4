#include "actors/network/message_guard.hpp"

#include "actors/actor_names.hpp"
#include "actors/interfaces.hpp"
#include "messages/codec.hpp"

#include <caf/io/all.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <string_view>
#include <utility>

namespace dynamix::actors {
namespace {

namespace basp = caf::io::basp;
using caf::io::basp::message_type;

/// Two messages and what stands around them: of an arbitrator of a tree, which sends policies and windows of thousands.
constexpr std::size_t payload_bytes_max = 2 * messages::max_frame_words * sizeof(std::uint64_t) + 65536;
/// Of all other hosts: the largest operation on a store, with each key as long as may be.
constexpr std::size_t small_payload_bytes_max = 8U << 20;
/// The node's id, the application's name, and the gateway's interface.
constexpr std::size_t handshake_bytes_max = 16384;
/// What a host may make this one hold of payloads that are still coming, over all of its links.
constexpr std::size_t held_bytes_max = 2 * payload_bytes_max;
constexpr std::size_t small_held_bytes_max = 2 * small_payload_bytes_max;
/// Room that a link is given before a byte has come.
constexpr std::size_t part_bytes = 65536;
constexpr std::chrono::minutes between_lines{1};
constexpr const char* malformed = "it is malformed";

// What a message says of itself.
void describe(const messages::hello& value, statement& said) {
  said.host = value.host;
}
void describe(const messages::shard_hello& value, statement& said) {
  said.host = value.node;
}
void describe(const messages::window_report& value, statement& said) {
  said.host = value.host;
  said.ranks = {value.rank};
}
void describe(const messages::heartbeat& value, statement& said) {
  said.ranks = {value.rank};
}
void describe(const messages::absence& value, statement& said) {
  said.ranks = {value.rank};
}
void describe(const messages::farewell& value, statement& said) {
  said.host = value.host;
  if (said.kind != statement_kind::finish)
    said.ranks = {value.rank};
}
void describe(const messages::beat_summary& value, statement& said) {
  said.host = value.node;
  for (const auto& sign : value.beats)
    said.ranks.push_back(sign.rank);
}
void describe(const messages::shard_window& value, statement& said) {
  for (const auto& report : value.reports)
    said.ranks.push_back(report.rank);
  for (const auto& choice : value.choices)
    said.ranks.push_back(choice.rank);
}
void describe(const messages::welcome&, statement&) {}
/// Where a member of a generation is found is that member's to write ("generation-4/present/2").
void describe(const messages::store_operation& value, statement& said) {
  static constexpr std::string_view presence = "/present/";
  using messages::store_verb;
  if (value.verb != store_verb::set && value.verb != store_verb::add && value.verb != store_verb::remove)
    return;
  for (const auto& key : value.keys)
    if (const auto at = key.rfind(presence); at != std::string::npos) {
      auto rank = messages::max_workers; // nobody's, where it is no number
      std::from_chars(key.data() + at + presence.size(), key.data() + key.size(), rank);
      said.ranks.push_back(rank);
    }
}

/// Reads a message's first value, and what it says of itself. Returns what is wrong with it.
template <class T>
std::string read_claims(caf::binary_deserializer& source, const caf::node_id&, statement& said) {
  messages::message<T> value;
  if (source(value))
    return malformed;
  if (!value)
    return value.error().text;
  describe(*value, said);
  return "";
}

/// The same where a handle follows, which must be of an actor of that process: what is sent to it goes there.
template <class T>
std::string read_claims_and_handle(caf::binary_deserializer& source, const caf::node_id& process, statement& said) {
  if (auto problem = read_claims<T>(source, process, said); !problem.empty())
    return problem;
  caf::actor_id actor = 0;
  caf::node_id home;
  if (source(actor, home))
    return malformed;
  return actor == 0 || home == process ? "" : "it hands over an actor of another process";
}

std::string read_nothing(caf::binary_deserializer&, const caf::node_id&, statement&) {
  return "";
}

using reading = std::string (*)(caf::binary_deserializer&, const caf::node_id&, statement&);

/// One message that may cross.
struct crossing {
  std::string types; ///< as CAF writes them before a message's values
  caf::atom_value word = caf::atom_value{};
  statement_kind kind = statement_kind::answer;
  std::string_view receiver = {}; ///< an actor's name; empty: any
  reading read = read_nothing;
};

template <class... Values>
std::string types_of() {
  std::string text = "@<>";
  ((text += std::string("+") + caf::type_name<Values>::value), ...);
  return text;
}

/// A word of the protocol with values.
template <class... Values, caf::atom_value word>
crossing crossing_of(caf::atom_constant<word>, statement_kind kind, std::string_view receiver,
                     reading read = read_nothing) {
  auto types = types_of<Values...>();
  return {.types = types.insert(3, "+@atom"), .word = word, .kind = kind, .receiver = receiver, .read = read};
}

const std::vector<crossing>& crossings() {
  using namespace messages; // NOLINT: their names
  using kind = statement_kind;
  static const std::vector<crossing> all = {
      crossing_of<message<hello>, worker_actor>(atom::hello_v, kind::hello, actor_name::gateway,
                                                read_claims_and_handle<hello>),
      crossing_of<message<shard_hello>, child_actor>(atom::attach_v, kind::attach, actor_name::gateway,
                                                     read_claims_and_handle<shard_hello>),
      crossing_of<message<farewell>>(atom::finish_v, kind::finish, actor_name::gateway, read_claims<farewell>),

      crossing_of<message<window_report>>(atom::report_v, kind::report, actor_name::aggregator,
                                          read_claims<window_report>),
      crossing_of<message<heartbeat>>(atom::beat_v, kind::beat, actor_name::aggregator, read_claims<heartbeat>),
      crossing_of<>(atom::settle_v, kind::settle, actor_name::aggregator),
      crossing_of<message<evaluation_report>>(atom::evaluation_v, kind::evaluation, actor_name::aggregator),
      crossing_of<message<absence>>(atom::absent_v, kind::absent, actor_name::aggregator, read_claims<absence>),
      crossing_of<message<farewell>>(atom::farewell_v, kind::farewell, actor_name::aggregator, read_claims<farewell>),

      crossing_of<message<hello>, child_actor>(atom::relay_v, kind::relay, actor_name::aggregator,
                                               read_claims_and_handle<hello>),
      crossing_of<message<beat_summary>>(atom::beats_v, kind::beats, actor_name::aggregator, read_claims<beat_summary>),
      crossing_of<message<shard_window>>(atom::window_v, kind::window, actor_name::aggregator,
                                         read_claims<shard_window>),

      crossing_of<message<recipients>, message<placement>, store_actor>(atom::place_v, kind::guidance,
                                                                        actor_name::aggregator),
      crossing_of<message<recipients>, message<generation_notice>>(atom::closed_v, kind::guidance,
                                                                   actor_name::aggregator),
      crossing_of<message<guidance>>(atom::guide_v, kind::guidance, actor_name::aggregator),
      crossing_of<message<policy_version>>(atom::policy_v, kind::guidance, actor_name::aggregator),
      crossing_of<message<shard_order>>(atom::order_v, kind::guidance, actor_name::aggregator),
      crossing_of<>(atom::stop_v, kind::guidance, actor_name::aggregator),

      crossing_of<message<decision>>(atom::decide_v, kind::decision, actor_name::worker),
      crossing_of<message<placement>, store_actor>(atom::place_v, kind::decision, actor_name::worker),
      crossing_of<message<generation_notice>>(atom::closed_v, kind::decision, actor_name::worker),
      crossing_of<>(atom::stop_v, kind::decision, actor_name::worker),

      crossing_of<message<store_operation>>(atom::apply_v, kind::operation, actor_name::store,
                                            read_claims<store_operation>),
  };
  return all;
}

const std::vector<crossing>& answers() {
  using namespace messages; // NOLINT: the same
  static const std::vector<crossing> all = {
      {.types = types_of<message<welcome>, aggregator_actor>(), .read = read_claims_and_handle<welcome>},
      {.types = types_of<message<welcome>, parent_actor>(), .read = read_claims_and_handle<welcome>},
      {.types = types_of<message<welcome>>()},
      {.types = types_of<message<store_result>>()},
      {.types = "@<>+@atom"},
      {.types = "@<>+@error"},
  };
  return all;
}

/// Null: there is none such.
const crossing* find_crossing(bool answer, const std::string& types, caf::atom_value word, std::string_view receiver) {
  for (const auto& each : answer ? answers() : crossings())
    if (each.types == types && (answer || (each.word == word && (receiver.empty() || each.receiver == receiver))))
      return &each;
  return nullptr;
}

/// The name of an actor of this process; empty: there is none (any more).
std::string name_of_actor(caf::actor_system& system, caf::actor_id id) {
  const auto found = system.registry().get<caf::strong_actor_ptr>(id);
  const auto* actor = found ? dynamic_cast<caf::local_actor*>(caf::actor_cast<caf::abstract_actor*>(found)) : nullptr;
  return actor != nullptr ? actor->name() : "";
}

} // namespace

void new_links::put(caf::io::connection_handle connection, link_peer peer) {
  const std::scoped_lock lock(mutex_);
  waiting_.insert_or_assign(connection, std::move(peer));
}

std::optional<link_peer> new_links::take(caf::io::connection_handle connection) {
  const std::scoped_lock lock(mutex_);
  auto found = waiting_.extract(connection);
  return found.empty() ? std::nullopt : std::optional(std::move(found.mapped()));
}

void refused_messages::add(const std::string& host, const std::string& what, const std::string& reason) {
  ++count_;
  const auto now = std::chrono::steady_clock::now();
  if (told_at_ && now - *told_at_ < between_lines)
    return;
  spdlog::warn("message_refused from={} what={} reason=\"{}\" others_since_the_last_line={}", host, what, reason,
               count_ - told_ - 1);
  told_ = count_;
  told_at_ = now;
}

message_guard::message_guard(caf::actor_system& system, std::shared_ptr<const authority> rules,
                             std::shared_ptr<refused_messages> refused)
    : system_(system), rules_(std::move(rules)), refused_(std::move(refused)) {}

void message_guard::add(caf::io::connection_handle connection, link_peer peer) {
  peers_.insert_or_assign(connection, message_guard::peer{std::move(peer), {}});
}

message_guard::verdict message_guard::judge(caf::io::connection_handle connection, const basp::header* announced,
                                            const std::vector<char>& frame) {
  const auto from = peers_.find(connection);
  if (from == peers_.end())
    return verdict::cut;
  std::string reason;
  verdict found = verdict::cut;
  if (announced != nullptr) {
    found = judge_payload(from->second, *announced, frame, reason);
  } else {
    basp::header header;
    caf::binary_deserializer source(system_, frame);
    reason = malformed;
    if (!source(header))
      found = judge_header(from->second, header, reason);
    claimed_ = header.payload_len;
  }
  if (found != verdict::pass && !reason.empty())
    refused_->add(from->second.host, found == verdict::cut ? "frame" : "message", reason);
  return found;
}

bool message_guard::hold(caf::io::connection_handle connection, std::size_t bytes) {
  auto& from = peers_.at(connection);
  std::size_t held = bytes;
  for (const auto& [_, each] : peers_)
    held += each.host == from.host ? each.held_bytes : 0;
  if (held > (rules_->relays(from.host) ? held_bytes_max : small_held_bytes_max)) {
    refused_->add(from.host, "frame", "its host has others that are still coming");
    return false;
  }
  from.held_bytes += bytes;
  return true;
}

message_guard::verdict message_guard::judge_header(const peer& from, const basp::header& header,
                                                   std::string& reason) const {
  const auto most = basp::is_handshake(header)  ? handshake_bytes_max
                    : rules_->relays(from.host) ? payload_bytes_max
                                                : small_payload_bytes_max;
  if (header.payload_len > most)
    reason = fmt::format("it claims {} bytes", header.payload_len);
  else if (header.payload_len == 0 && header.operation != message_type::heartbeat)
    reason = malformed;
  else if (from.node == caf::none && !basp::is_handshake(header))
    reason = "it comes before a handshake";
  else
    return verdict::pass;
  return verdict::cut;
}

message_guard::verdict message_guard::judge_payload(peer& from, const basp::header& header,
                                                    const std::vector<char>& payload, std::string& reason) {
  caf::binary_deserializer source(system_, payload);
  bool for_others = false;
  switch (header.operation) {
  case message_type::server_handshake:
  case message_type::client_handshake:
    return judge_handshake(from, header.operation == message_type::server_handshake, source, reason);
  case message_type::monitor_message:
  case message_type::down_message:
    return judge_route(from, source, for_others, reason);
  case message_type::routed_message:
    if (const auto found = judge_route(from, source, for_others, reason); found != verdict::pass)
      return found;
    return judge_message(from, header, source, for_others, reason);
  case message_type::direct_message:
    return judge_message(from, header, source, false, reason);
  case message_type::heartbeat:
    return verdict::pass;
  }
  reason = malformed;
  return verdict::cut;
}

message_guard::verdict message_guard::judge_handshake(peer& from, bool of_server, caf::binary_deserializer& source,
                                                      std::string& reason) {
  caf::node_id process;
  if (source(process) || process == caf::none)
    reason = malformed;
  else if (of_server != from.called)
    reason = "it is the other side's handshake";
  else if (from.node != caf::none && from.node != process) // CAF says the same again to choose a connection
    reason = "it names another process than before";
  else if (is_linked(process, from))
    reason = "its process is said to be that of another host's link";
  else
    from.node = process;
  return reason.empty() ? verdict::pass : verdict::cut;
}

/// Between which processes it travels: from the peer's own or, where the peer holds an arbitrator of a tree, from one
/// that has no link to this.
message_guard::verdict message_guard::judge_route(const peer& from, caf::binary_deserializer& source, bool& for_others,
                                                  std::string& reason) const {
  caf::node_id sender;
  caf::node_id receiver;
  if (source(sender, receiver)) {
    reason = malformed;
    return verdict::cut;
  }
  for_others = receiver != system_.node();
  if (sender != from.node && (!rules_->relays(from.host) || sender == system_.node() || is_linked(sender, from)))
    reason = "it is said to be from another process";
  else if (for_others && !rules_->relays(rules_->own()))
    reason = "it is for another process";
  return reason.empty() ? verdict::pass : verdict::drop;
}

message_guard::verdict message_guard::judge_message(const peer& from, const basp::header& header,
                                                    caf::binary_deserializer& source, bool for_others,
                                                    std::string& reason) {
  if (header.has(basp::header::named_receiver_flag)) {
    reason = "it is for a service of CAF's own";
    return verdict::drop;
  }
  std::uint8_t stages = 1;
  std::uint16_t number = 1;
  std::string types;
  if (source(stages, number) || stages != 0 || number != 0 || source(types)) {
    reason = malformed;
    return verdict::drop;
  }
  const bool answer = caf::make_message_id(header.operation_data).is_response();
  auto word = caf::atom_value{};
  if (!answer && source(word)) {
    reason = malformed;
    return verdict::drop;
  }
  const bool routed = header.operation == message_type::routed_message;
  const auto receiver = answer || for_others ? "" : name_of_actor(system_, header.dest_actor);
  const auto* found = find_crossing(answer, types, word, receiver);
  if (found == nullptr || header.source_actor == caf::invalid_actor_id) {
    reason = fmt::format("{} {} is not for {}", types, caf::to_string(word), receiver.empty() ? "any actor" : receiver);
    return verdict::drop;
  }
  statement said{.kind = found->kind};
  reason = found->read(source, from.node, said);
  if (reason.empty() && routed && said.kind != statement_kind::operation && said.kind != statement_kind::answer)
    reason = "only what a store hears and answers goes through others";
  if (reason.empty() && !for_others)
    reason = rules_->refuse(from.host, said);
  if (reason.empty())
    return verdict::pass;
  if (!answer)
    reason = fmt::format("{}: {}", caf::to_string(word), reason);
  return verdict::drop;
}

/// Whether a link other than that peer's, of another host, leads to that process, or it is this one.
bool message_guard::is_linked(const caf::node_id& node, const peer& except) const {
  return node == system_.node() || std::ranges::any_of(peers_, [&](const auto& each) {
           return each.second.node == node && each.second.host != except.host;
         });
}

void guarded_broker::use(std::shared_ptr<const authority> rules, std::shared_ptr<new_links> links,
                         std::shared_ptr<refused_messages> refused) {
  if (rules)
    guard_.emplace(system(), std::move(rules), std::move(refused));
  links_ = std::move(links);
}

caf::behavior guarded_broker::make_behavior() {
  behind_ = basp_broker::make_behavior();
  const caf::message_handler guard{[this](caf::io::new_data_msg& frame) { take(frame); },
                                   [this](const caf::io::connection_closed_msg& closed) {
                                     held_.erase(closed.handle);
                                     if (guard_)
                                       guard_->remove(closed.handle);
                                     behind_(current_mailbox_element()->content());
                                   }};
  return guard.or_else(behind_);
}

void guarded_broker::learned_new_node_directly(const caf::node_id&, bool) {}

void guarded_broker::learned_new_node_indirectly(const caf::node_id&) {}

void guarded_broker::take(caf::io::new_data_msg& frame) {
  if (auto fresh = links_->take(frame.handle); fresh && guard_)
    guard_->add(frame.handle, std::move(*fresh));
  if (held_.contains(frame.handle))
    return take_part(frame.handle, frame.buf);
  const bool is_header = !awaits_payload(frame.handle);
  if (!judge(frame.handle, frame.buf))
    return;
  if (guard_ && is_header && guard_->claimed() > part_bytes) {
    set_context(frame.handle); // it lives
    held_[frame.handle] = {.header = frame.buf, .claimed = guard_->claimed(), .payload = {}};
    return await_part(frame.handle);
  }
  behind_(current_mailbox_element()->content());
}

void guarded_broker::await_part(caf::io::connection_handle connection) {
  const auto& frame = held_.at(connection);
  const auto bytes = std::min(part_bytes, frame.claimed - frame.payload.size());
  if (!guard_->hold(connection, bytes))
    return cut(connection);
  configure_read(connection, caf::io::receive_policy::exactly(bytes));
}

void guarded_broker::take_part(caf::io::connection_handle connection, const std::vector<char>& part) {
  auto& payload = held_.at(connection).payload;
  payload.insert(payload.end(), part.begin(), part.end());
  if (payload.size() < held_.at(connection).claimed)
    return await_part(connection);
  auto whole = std::move(held_.extract(connection).mapped());
  guard_->release(connection);
  pass_on(connection, std::move(whole.header));
  if (awaits_payload(connection) && judge(connection, whole.payload))
    pass_on(connection, std::move(whole.payload));
}

void guarded_broker::pass_on(caf::io::connection_handle connection, std::vector<char> frame) {
  auto content = caf::make_message(caf::io::new_data_msg{connection, std::move(frame)});
  behind_(content);
}

void guarded_broker::cut(caf::io::connection_handle connection) {
  held_.erase(connection);
  guard_->remove(connection);
  connection_cleanup(connection, caf::sec::runtime_error);
  close(connection);
}

bool guarded_broker::awaits_payload(caf::io::connection_handle connection) const {
  const auto known = ctx.find(connection);
  return known != ctx.end() && known->second.cstate == basp::await_payload;
}

bool guarded_broker::judge(caf::io::connection_handle connection, const std::vector<char>& frame) {
  if (!guard_)
    return true;
  using verdict = message_guard::verdict;
  const auto found = guard_->judge(connection, awaits_payload(connection) ? &ctx[connection].hdr : nullptr, frame);
  if (found == verdict::cut)
    cut(connection);
  if (found == verdict::drop) // CAF reads a sign of life in its place
    ctx[connection].hdr.operation = message_type::heartbeat;
  return found != verdict::cut;
}

} // namespace dynamix::actors
