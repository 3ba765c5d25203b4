#pragma once

/// What CAF gets of what proven peers send. CAF itself takes whatever comes over a connection: ends and kills of any
/// actor, calls of its own services, messages of actors that never left this process. The guard reads every frame
/// before CAF does and passes on only messages of actors/interfaces.hpp that their sender may send
/// (actors/network/authority).

#include "actors/network/authority.hpp"

#include <caf/io/basp/header.hpp>
#include <caf/io/connection_handle.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::actors {

/// Who is at the other end of a connection.
struct link_peer {
  std::string host;    ///< proven
  bool called = false; ///< this host has called it
  std::string address; ///< from which it has called, in numbers; empty: not known
};

/// Refused frames: counted, and told in a line per minute at most.
class refused_messages {
public:
  void add(const std::string& host, const std::string& what, const std::string& reason);
  std::uint64_t count() const { return count_; }

private:
  std::atomic<std::uint64_t> count_ = 0;
  std::uint64_t told_ = 0; ///< of those
  std::optional<std::chrono::steady_clock::time_point> told_at_;
};

/// Judges frames of all connections in the order in which CAF reads them: a header, then what it says that follows.
class message_guard {
public:
  enum class verdict { pass, drop, cut };

  message_guard(caf::actor_system& system, std::shared_ptr<const authority> rules,
                std::shared_ptr<refused_messages> refused);
  void add(caf::io::connection_handle connection, link_peer peer);
  void remove(caf::io::connection_handle connection);
  /// `announced`: the header before it; null: it is one.
  verdict judge(caf::io::connection_handle connection, const caf::io::basp::header* announced,
                const std::vector<char>& frame);

  /// Bytes of the payload that the header which was judged last announces.
  std::size_t claimed() const { return claimed_; }
  /// Bytes of a payload that has not come in whole are about to be held for this connection: false where those of all
  /// links of its host come to more than it may make this one hold, and the link is to be cut.
  bool hold(caf::io::connection_handle connection, std::size_t bytes);
  void release(caf::io::connection_handle connection) { peers_.at(connection).held_bytes = 0; }

private:
  struct peer : link_peer {
    caf::node_id node;          ///< its process, which its handshake has named; none: no handshake yet
    std::size_t held_bytes = 0; ///< of a payload that has not come in whole
  };

  verdict judge_header(const peer& from, const caf::io::basp::header& header, std::string& reason) const;
  verdict judge_payload(peer& from, const caf::io::basp::header& header, const std::vector<char>& payload,
                        std::string& reason);
  verdict judge_handshake(peer& from, bool of_server, caf::binary_deserializer& source, std::string& reason);
  verdict judge_route(const peer& from, caf::binary_deserializer& source, bool& for_others, std::string& reason) const;
  verdict judge_message(const peer& from, const caf::io::basp::header& header, caf::binary_deserializer& source,
                        bool for_others, std::string& reason);
  bool is_linked(const caf::node_id& node, const peer& except) const;
  void tell_addresses(const std::string& host) const;

  caf::actor_system& system_;
  std::shared_ptr<const authority> rules_;
  std::shared_ptr<refused_messages> refused_;
  std::map<caf::io::connection_handle, peer> peers_;
  std::size_t claimed_ = 0;
};

} // namespace dynamix::actors
