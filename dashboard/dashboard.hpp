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
  std::shared_ptr<server> http;
};

/// Why nothing may be served at `file.dashboard.listen` by `host`: the token or the keys that are needed there are
/// missing or no good. Empty when it may, or where that is empty. Without `host`, whose keys may still be to come, a
/// certificate of its own is not looked at.
struct refusal {
  std::string field; ///< of the cluster file
  std::string reason;
  explicit operator bool() const { return !reason.empty(); }
};
refusal refuse_access(const cluster::cluster_file& file, const std::string& host = "");

/// Serves `ledger`, which need not exist yet, at `file.dashboard.listen`; nothing where that is empty or refused. A
/// port that is taken is not an error: it is tried again.
running_dashboard start(const cluster::cluster_file& file, const std::string& host, const std::string& ledger,
                        feed::find_notices notices = {});

/// Serves the runs below `directory`, likewise.
std::shared_ptr<server> start_runs(const cluster::cluster_file& file, const std::string& directory);

/// "http://127.0.0.1:8080/"; a wildcard is named by this machine's loopback. Empty where `file.dashboard.listen` is.
std::string url_of(const cluster::cluster_file& file);

} // namespace dynamix::dashboard
