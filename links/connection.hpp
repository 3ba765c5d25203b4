#pragma once

/// One connection between TLS on a TCP socket and plain bytes on a local one, without the loop that waits for them.
/// Included by this room's sources only.

#include "links/tls_identity.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::links {

/// A descriptor that is closed with its owner.
class descriptor {
public:
  descriptor() = default;
  explicit descriptor(int number) : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(other.release()) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor();
  explicit operator bool() const { return number_ >= 0; }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

private:
  int number_ = -1;
};

/// Both ends of a plain connection within this process; none where there is no descriptor left.
std::pair<descriptor, descriptor> make_plain_pair();

/// What a loop is to wait for; the event masks of epoll.
struct interest {
  std::uint32_t peer = 0;
  std::uint32_t local = 0;
};

/// The states of a connection; those before `open` have `handshake_timeout` in all:
///
///     silent ----first byte----> handshaking ----accepted----> proven        of one that connects to us, at a door
///                                                   proven --> open          and then at a pump
///                                     handshaking -> confirming --> open     of one that we connect to
///                 proven -> introducing -> introduced --> open               of a carriage that connects to us; the
///                                                                            last waits as long as it is let
///                      handshaking -> confirming -> introducing -> open      of a carriage that we connect to
///     open --the local user closes, all it wrote is sent--> closing --peer closes, or a second--> over
///     open --the peer closes, all it sent is delivered--> over
///     any --refused, broken, late--> over
///
/// A server answers an accepted handshake with one byte, for in TLS 1.3 a client has done its part of the handshake
/// before the server has seen its certificate. Nothing is made of a peer that has not said a first byte.
enum class link_phase { silent, handshaking, proven, confirming, introducing, introduced, open, closing, over };

/// Of what follows an introduction.
enum class protection { tls, none };

class connection {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// `expected`: the host that was called; empty for one that has connected to us.
  connection(descriptor peer, std::string address, std::string expected, time_point deadline);
  connection(const connection&) = delete;

  link_phase phase() const { return phase_; }
  /// Until when the phase may last, where there is a limit.
  const std::optional<time_point>& deadline() const { return deadline_; }
  bool calls() const { return !check_.expected.empty(); }
  const std::string& address() const { return address_; }
  /// The proven name of the peer; empty before.
  const std::string& peer_name() const { return check_.name; }
  /// Why it was refused, or broke; empty where it was closed in order.
  const std::string& problem() const { return problem_; }

  int peer_socket() const { return peer_.get(); }
  int local_socket() const { return local_.get(); }
  interest wanted() const;

  // Of a carriage: the caller says first, in at most 255 bytes, what the link is for.
  void introduce(const std::string& purpose, protection afterwards); ///< before the handshake
  void expect_introduction(protection afterwards);                   ///< of a proven one
  /// What the caller has said.
  std::string introduction() const { return introduction_.substr(1); }
  /// Until when an introduced one may wait for its other end.
  void wait_until(time_point deadline) { deadline_ = deadline; }

  /// The phases before `open`. `rules`: who may connect, of one that connects to us. True once the peer is proven: then
  /// `open` or `expect_introduction` follows, or `refuse`; and once it is introduced.
  bool shake_hands(const tls_identity& identity, const protocol_rules* rules);
  /// By whose rule it is proven, where it connects to us.
  std::size_t rule() const { return check_.rule.value(); }
  /// `local`: this side's end of the plain connection, whose user reads `greeting` first.
  void open(descriptor local, const std::string& greeting);
  void refuse(const std::string& problem);
  /// Of each part that the peer sends from then on: why it is not passed on and the link breaks, or empty.
  void inspect(std::function<std::string(std::span<const char>)> check) { inspect_ = std::move(check); }

  /// The phases from `open` on: moves what can be moved. True where it has stopped although there is more.
  bool transfer(time_point now);
  /// The local user writes no more: what it has written is sent, then the connection is closed.
  void leave() { leaving_ = true; }

private:
  bool first_byte_is_right();
  bool step(int result);
  bool read_introduction();
  bool write_introduction();
  void drop_session();
  bool move_out(time_point now);
  bool move_in();
  bool send_to_peer(const char* data, std::size_t size, std::size_t& accepted);
  int write_some(const char* data, std::size_t size);
  int read_some(char* data, std::size_t size);
  std::size_t deliver(const char* data, std::size_t size);
  void close_in_order();
  void fail(const std::string& problem);

  descriptor peer_;
  descriptor local_;
  const std::string address_;
  peer_check check_;
  ssl_handle session_; ///< before the sockets in destruction; none of an open link that goes on without TLS
  link_phase phase_;
  std::optional<time_point> deadline_;
  std::string problem_;
  bool introduces_ = false;
  protection afterwards_ = protection::tls;
  bool confirmed_ = false;                                    ///< the peer was told that it is accepted, before `open`
  std::string introduction_;                                  ///< after one byte with its length
  bool wants_write_ = false;                                  ///< the session waits for room on the TCP socket
  bool local_ended_ = false;                                  ///< the local user has closed its end
  bool leaving_ = false;                                      ///< an empty local socket is an ended one
  bool told_peer_ = false;                                    ///< that we close
  std::function<std::string(std::span<const char>)> inspect_; ///< none: whatever comes is passed on
  std::vector<char> outgoing_; ///< read from the local user, not yet taken for the peer; at most one block
  std::vector<char> incoming_; ///< of the peer, not yet taken by the local user; at most one block
};

} // namespace dynamix::links
