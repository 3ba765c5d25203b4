#pragma once

#include "replication/transport.hpp"

#include <array>

namespace dynamix::replication {

/// libuv's stream over a link's plain end, which it owns; from raft_malloc, as libraft frees it. Null where there is no
/// memory: then the end is closed.
uv_stream_t* open_plain_end(uv_loop_t& loop, int plain);

/// One outgoing connection until its peer is proven:
///
///     resolving -> connecting -> securing -> the peer's name from the pump -> handed over
///
/// The pump gets the TCP connection, and libraft its plain end. Any failure, the timer and the transport's close lead
/// to `abort`. It lives until libuv has called back for the last time (requests and handles that refer to it), then
/// removes itself from the transport.
class handshake {
public:
  explicit handshake(transport& owner);
  handshake(const handshake&) = delete;

  /// False if it cannot even be begun; then the request is not called back.
  bool connect(raft_uv_connect* request, raft_uv_connect_cb connected, const voter& peer);
  /// RAFT_NOCONNECTION, or RAFT_CANCELED when the transport closes.
  void abort(int status);

private:
  static handshake& of(void* data) { return *static_cast<handshake*>(data); }
  bool open();
  bool resolve(const std::string& host, const std::string& port);
  void resolved(const addrinfo* found);
  void connected(int status);
  void read(std::size_t size);
  void received();
  void secure();
  void refuse(const std::string& why);
  void fail(std::uint64_t transport_counts::*counter);
  void hand_over();
  void release_when_quiet();

  transport& owner_;
  uv_stream_t* stream_ = nullptr; ///< a uv_tcp_t, then the link's uv_pipe_t; from raft_malloc, as libraft frees it
  uv_timer_t timer_{};
  uv_getaddrinfo_t resolve_{};
  uv_connect_t connect_{};
  raft_uv_connect* request_ = nullptr;
  raft_uv_connect_cb connected_ = nullptr;
  std::string host_; ///< that is called
  std::array<std::uint8_t, 256> buffer_{};
  std::size_t wanted_ = 0;
  std::size_t have_ = 0;
  int status_ = 0;
  unsigned outstanding_ = 0; ///< callbacks that libuv still owes
  bool resolving_ = false;
  bool named_ = false; ///< the name's length is known
  bool ended_ = false;
};

} // namespace dynamix::replication
