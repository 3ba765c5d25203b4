#pragma once

/// The live page and the metrics of one run, from its ledger's file: start it, and forget it.

#include "cluster/cluster_file.hpp"
#include "dashboard/feed.hpp"
#include "dashboard/server.hpp"

#include <memory>
#include <string>

namespace dynamix::dashboard {

/// A feed and its server.
struct running_dashboard {
  std::shared_ptr<feed> from;
  std::unique_ptr<server> http;
};

/// Why nothing may be served at `file.dashboard.listen`: the token that is needed there is missing or no good. Empty
/// when it may, or where that is empty.
std::string refuse_access(const cluster::cluster_file& file);

/// Serves `ledger`, which need not exist yet, at `file.dashboard.listen`; nothing where that is empty or refused. A
/// port that is taken is no error: it is tried again.
running_dashboard start(const cluster::cluster_file& file, const std::string& ledger);

/// "http://127.0.0.1:8080/"; a wildcard is named by this machine's loopback.
std::string url_of(const cluster::listen_address& listen);
/// Of `file.dashboard.listen`; empty where that is.
std::string url_of(const cluster::cluster_file& file);

} // namespace dynamix::dashboard
