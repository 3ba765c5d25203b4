#pragma once

/// libraft's connections: links (links/pump.hpp), whose peers have proved that they are voters' hosts before libraft
/// sees one byte of them.

#include "links/pump.hpp"
#include "replication/libraft.hpp"
#include "replication/voter.hpp"

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace dynamix::replication {

struct transport_options {
  std::uint64_t id = 0; ///< of this voter
  std::vector<voter> voters;
  std::shared_ptr<links::pump> links = {};
  std::uint32_t handshake_ms = 1000;              ///< from the connect to the proven name
  std::uint32_t silent_peer_ms = 2000;            ///< unacknowledged bytes for this long end a connection
  std::function<void(const std::string&)> report; ///< for a person: who was refused and why
  std::function<void(std::uint64_t peer)>
      hung_up; ///< a voter has closed the last connection that it had proved itself on
};

struct transport_counts {
  std::uint64_t accepted = 0;  ///< proved and handed to libraft
  std::uint64_t connected = 0; ///< likewise, outgoing
  std::uint64_t refused = 0;   ///< other hosts than were called, or than voters have
  std::uint64_t timed_out = 0;
  std::uint64_t broken = 0; ///< ended by the peer or the network before it was proved
};

class handshake;

/// Used on the loop's thread only. Outlives the raft_io that it is given to; `raft_io::close` closes it.
class transport {
public:
  transport(uv_loop_t& loop, transport_options options);
  transport(const transport&) = delete;
  ~transport();

  raft_uv_transport* interface() { return &interface_; }
  const transport_counts& counts() const { return counts_; }
  /// Why `listen` failed, or empty.
  const std::string& listen_error() const { return listen_error_; }

private:
  friend class handshake;

  static int init(raft_uv_transport* self, raft_id id, const char* address);
  static int listen(raft_uv_transport* self, raft_uv_accept_cb accepted);
  static int connect(raft_uv_transport* self, raft_uv_connect* request, raft_id id, const char* address,
                     raft_uv_connect_cb connected);
  static void close(raft_uv_transport* self, raft_uv_transport_close_cb closed);

  const voter* find(std::uint64_t id) const;
  const voter* find_host(const std::string& name) const;
  int wait_for_links();
  void take_links();
  void tune(uv_tcp_t& connection) const;
  void hand_over(std::uint64_t peer, uv_stream_t* stream);
  static void read(uv_stream_t* stream, ssize_t got, const uv_buf_t* buffer);
  void report(const std::string& text) const;
  void remove(handshake& done);
  void maybe_closed();

  uv_loop_t& loop_;
  transport_options options_;
  raft_uv_transport interface_{};
  raft_uv_accept_cb accepted_ = nullptr;
  raft_uv_transport_close_cb closed_ = nullptr;
  uv_read_cb reader_ = nullptr;                           ///< libraft's, the same for all streams
  std::unordered_map<uv_stream_t*, std::uint64_t> peers_; ///< who sends on the streams that libraft reads
  std::unique_ptr<uv_poll_t> waiting_;                    ///< for links
  int queue_ = -1;                                        ///< of accepted links
  std::list<std::unique_ptr<handshake>> handshakes_;
  transport_counts counts_;
  std::string listen_error_;
  bool closing_ = false;
};

} // namespace dynamix::replication
