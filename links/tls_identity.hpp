#pragma once

/// A host's identity as OpenSSL takes it, and the check of who is at the other end. Included by this room's sources
/// only.

#include "links/openssl_handles.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>

namespace dynamix::links {

/// `protocol` as in ALPN's extension: its length before it.
std::string listed(const std::string& protocol);

/// Who may connect to speak one protocol.
struct protocol_rule {
  std::string listed;             ///< the protocol
  std::set<std::string> accepted; ///< names of hosts
  bool accepts_all = false;       ///< whoever proves its name
};
/// Of one port. They stay where they are as others are added: sessions that shake hands point to them.
using protocol_rules = std::deque<protocol_rule>;

/// Who may be at the other end of one connection, and what its certificate has said.
struct peer_check {
  const protocol_rules* rules = nullptr; ///< of one that connects to us
  std::optional<std::size_t> rule;       ///< that of the protocol that it has asked for
  std::string expected;                  ///< of one that we connect to
  std::string name;                      ///< of the peer, once it is proven
  std::string problem;                   ///< why it was refused
};

/// Makes TLS sessions from the files of one host's directory: TLS 1.3 alone, both sides with a certificate, no
/// resumption (which would pass over the certificates), one protocol by ALPN, which calls are for. Reads the files
/// again when they change, for the sessions that follow. Not thread-safe.
class tls_identity {
public:
  tls_identity(std::string directory, std::string host, const std::string& protocol);

  /// Reads the files. Returns an empty string, or what is wrong; then the sessions are made as before.
  std::string load();
  /// As `load`, where they have changed since, and at most once a second: empty where nothing was read.
  std::string refresh(std::chrono::steady_clock::time_point now);

  /// A session over `socket`, which it does not own. `check` must stay where it is and outlive the session. Null where
  /// there is no memory.
  ssl_handle make_session(int socket, bool accepts, peer_check& check) const;

private:
  std::string stamp() const;

  std::string directory_;
  std::string host_;
  std::string protocol_; ///< as listed
  std::string stamp_;    ///< of the files that were read last
  std::chrono::steady_clock::time_point looked_;
  std::unique_ptr<SSL_CTX, freed_by<SSL_CTX_free>> context_;
};

/// What is said of a peer whose connection has ended, and nothing else is known.
constexpr const char* closed_by_peer = "it closed the connection";

/// Why a handshake, or what follows it, has failed, as the end of a sentence that begins with the peer; empties this
/// thread's queue of OpenSSL's errors.
std::string explain_failure(const peer_check& check);

} // namespace dynamix::links
