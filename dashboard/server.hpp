#pragma once

/// The HTTP side of the page: read-only, bounded, never in the way of the run.
///
///   GET /            the page            GET /api/state   the whole state (?history=0: without the past)
///   GET /metrics     for Prometheus      GET /events      every change, as server-sent events
///   GET /healthz     "ok"                POST /login      a browser shows the token
///   GET /api/explain?at=SECONDS          why the batch sizes at that time are what they are
///
/// Of many runs: GET / is their list, /api/runs what it shows, /api/course?run=NAME what is drawn of one, /?run=NAME
/// the page of one, and /api/state?run=NAME its state.
///
/// libmicrohttpd parses, within a fixed memory a connection; TLS is GnuTLS's, beneath it.

#include "cluster/listen_address.hpp"
#include "dashboard/connections.hpp"
#include "dashboard/feed.hpp"
#include "dashboard/run_library.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace dynamix::dashboard {

struct server_options {
  cluster::listen_address listen;
  std::string token;            ///< empty: none is asked for; needed beyond loopback
  std::string certificate_file; ///< PEM, its chain behind it; empty: no TLS. Read again when it changes
  std::string key_file;
  std::size_t streams = 64;
  connection_limits connections;
  std::chrono::seconds write_timeout{5}; ///< a client that takes nothing for so long is dropped
  std::size_t answer_bytes = 64U << 20;  ///< of each kind on their way, a text counted once for all who read it
  std::chrono::milliseconds retry_interval{2000};
};

/// Listens on threads of its own; while the port is taken it says so once and tries again.
class server {
public:
  server(std::shared_ptr<feed> from, server_options options);
  server(std::shared_ptr<run_library> runs, server_options options);
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  /// Ends all streams, once they have seen what came last.
  void stop();
  ~server();

  bool listening() const;

private:
  struct shared;
  std::unique_ptr<shared> shared_;
};

} // namespace dynamix::dashboard
