#include "actors/network/message_guard.hpp"

#include "actors/network/crossings.hpp"
#include "messages/codec.hpp"
#include "storage/json_text.hpp"

#include <caf/io/all.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
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
constexpr std::chrono::minutes between_lines{1};

/// The name of an actor of this process; empty: there is none (any more).
std::string name_of_actor(caf::actor_system& system, caf::actor_id id) {
  const auto found = system.registry().get<caf::strong_actor_ptr>(id);
  const auto* actor = found ? dynamic_cast<caf::local_actor*>(caf::actor_cast<caf::abstract_actor*>(found)) : nullptr;
  return actor != nullptr ? actor->name() : "";
}

} // namespace

void refused_messages::add(const std::string& host, const std::string& what, const std::string& reason) {
  ++count_;
  const auto now = std::chrono::steady_clock::now();
  if (told_at_ && now - *told_at_ < between_lines)
    return;
  spdlog::warn("message_refused from={} what={} reason={} others_since_the_last_line={}", host, what,
               storage::quoted(reason), count_ - told_ - 1);
  told_ = count_;
  told_at_ = now;
}

message_guard::message_guard(caf::actor_system& system, std::shared_ptr<const authority> rules,
                             std::shared_ptr<refused_messages> refused)
    : system_(system), rules_(std::move(rules)), refused_(std::move(refused)) {}

void message_guard::add(caf::io::connection_handle connection, link_peer peer) {
  const auto host = peer.host;
  peers_.insert_or_assign(connection, message_guard::peer{std::move(peer), {}});
  tell_addresses(host);
}

void message_guard::remove(caf::io::connection_handle connection) {
  if (const auto gone = peers_.extract(connection); gone)
    tell_addresses(gone.mapped().host);
}

/// From where that host's links have come that there are now.
void message_guard::tell_addresses(const std::string& host) const {
  std::vector<std::string> found;
  for (const auto& [_, each] : peers_)
    if (each.host == host && !each.address.empty())
      found.push_back(each.address);
  rules_->linked(host, std::move(found));
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
  const auto* found = answer ? find_answer(types) : find_request(types, word, receiver);
  // For an actor that has ended CAF answers every request with an error, in nobody's name. Without it whoever asked
  // would wait for as long as a request may take.
  const bool in_nobodys_name = header.source_actor == caf::invalid_actor_id;
  if (found == nullptr || (in_nobodys_name && !(answer && types == error_answer))) {
    reason = fmt::format("{} {} is not for {}", types, caf::to_string(word), receiver.empty() ? "any actor" : receiver);
    return verdict::drop;
  }
  statement said{.kind = found->kind};
  reason = found->read(source, from.node, said);
  if (reason.empty() && routed && said.kind != statement_kind::operation && said.kind != statement_kind::answer)
    reason = "only what a store hears and answers goes through others";
  // Who has heard a worker itself knows who it is: a store behind others hears what they have let through.
  if (reason.empty() && (!for_others || said.kind == statement_kind::operation))
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

} // namespace dynamix::actors
