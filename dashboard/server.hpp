#pragma once

/// The HTTP side of the page: read-only, bounded, never in the way of the run.
///
///   GET /            the page            GET /api/state   the whole state (?history=0: without the past)
///   GET /metrics     for Prometheus      GET /events      every change, as server-sent events
///   GET /healthz     "ok"                POST /login      a browser shows the token

#include "cluster/listen_address.hpp"
#include "dashboard/feed.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace dynamix::dashboard {

struct server_options {
  cluster::listen_address listen;
  std::string token; ///< empty: none is asked for; needed beyond loopback
  std::size_t streams = 64;
  std::size_t threads = 8;               ///< besides one a stream
  std::chrono::seconds write_timeout{5}; ///< a client that takes nothing for so long is dropped
  std::chrono::milliseconds retry_interval{2000};
};

/// Listens on a thread of its own; while the port is taken it says so once and tries again.
class server {
public:
  server(std::shared_ptr<feed> from, server_options options);
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  /// Ends all streams. What has not ended within `patience` is left to the process's end.
  void stop(std::chrono::milliseconds patience = std::chrono::milliseconds(1500));
  ~server() { stop(); }

  bool listening() const;

private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

} // namespace dynamix::dashboard
