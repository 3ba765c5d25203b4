#pragma once

#include "replication/transport.hpp"

#include <array>
#include <span>

namespace dynamix::replication {

/// libuv's stream over a link's plain end, which it owns; from raft_malloc, as libraft frees it. Null where there is no
/// memory: then the end is closed.
uv_stream_t* open_plain_end(uv_loop_t& loop, int plain);

/// One connection until its challenge is over:
///
///     outgoing:  resolving -> connecting -> greeting -> answer -> proving -> handed over
///     incoming:                              greeting -> answering and proof -> handed over
///     outgoing over links: resolving -> connecting -> securing -> the peer's name from the pump -> handed over
///
/// Over links the pump gets the TCP connection, and libraft its plain end; those that have called come from the pump
/// when they are proven. Any failure, the timer and the transport's
/// close lead to `abort`. It lives until libuv has called back for the last time (requests and handles that refer to
/// it), then removes itself from the transport.
class handshake {
public:
  explicit handshake(transport& owner);
  handshake(const handshake&) = delete;

  bool accept(uv_stream_t* listener);
  /// False if it cannot even be begun; then the request is not called back.
  bool connect(raft_uv_connect* request, raft_uv_connect_cb connected, const voter& peer);
  /// RAFT_NOCONNECTION, or RAFT_CANCELED when the transport closes.
  void abort(int status);
  bool incoming() const { return !outgoing_; }
  bool ended() const { return ended_; }

private:
  static handshake& of(void* data) { return *static_cast<handshake*>(data); }
  bool open();
  bool resolve(const std::string& host, const std::string& port);
  void resolved(const addrinfo* found);
  void connected(int status);
  void read(std::size_t size);
  void received();
  void received_greeting();
  void received_answer();
  void received_proof();
  void secure(const std::string& expected);
  void received_name();
  void write(std::span<const std::uint8_t> bytes);
  void written(int status);
  void refuse(const std::string& why);
  void fail(std::uint64_t transport_counts::*counter);
  void hand_over();
  void release_when_quiet();

  transport& owner_;
  uv_stream_t* stream_ = nullptr; ///< a uv_tcp_t, or a uv_pipe_t over links; from raft_malloc, as libraft frees it
  uv_timer_t timer_{};
  uv_getaddrinfo_t resolve_{};
  uv_connect_t connect_{};
  uv_write_t write_{};
  raft_uv_connect* request_ = nullptr;
  raft_uv_connect_cb connected_ = nullptr;
  challenge challenge_;
  std::string peer_address_; ///< of an outgoing connection, for reports
  std::array<std::uint8_t, 256> buffer_{};
  std::array<std::uint8_t, 128> output_{};
  std::size_t wanted_ = 0;
  std::size_t have_ = 0;
  int status_ = 0;
  unsigned outstanding_ = 0; ///< callbacks that libuv still owes
  bool outgoing_ = false;
  bool resolving_ = false;
  bool secured_ = false; ///< the stream is a link's plain end
  bool answered_ = false;
  bool proved_ = false;
  bool ended_ = false;
};

} // namespace dynamix::replication
