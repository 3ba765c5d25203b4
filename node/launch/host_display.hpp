#pragma once

/// What `run` prints of the whole run: what `local` prints, on the arbitrator's host, whose ledger tells it.

#include "cluster/cluster_file.hpp"
#include "dashboard/server.hpp"
#include "ledger/file.hpp"
#include "node/launch/live_output.hpp"
#include "node/launch/run_directory.hpp"
#include "node/reports/run_records.hpp"

#include <iosfwd>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

namespace dynamix::node {

class host_display {
public:
  /// `host`: whose process this is. Its run begins or goes on in `run`; a ledger that is there is of an earlier life.
  host_display(const cluster::cluster_file& file, const cluster::host& host, const run_directory& run,
               std::ostream& out);

  /// The run directory. From here on, where the ledger is written, the progress is shown, and the page's address once
  /// it answers; `page` is null where there is none.
  void begin(std::shared_ptr<const dashboard::server> page);
  /// No more progress. Ends with the tables of the run where there are results, else with why the host has ended.
  void end(const run_summary* results, const std::string& reason);

private:
  void follow(const std::stop_token& stop, std::shared_ptr<const dashboard::server> page);

  const cluster::cluster_file& file_;
  const cluster::host& host_;
  run_directory run_;
  live_output live_;
  ledger::tail tail_;
  std::jthread follower_;
};

} // namespace dynamix::node
