#pragma once

/// A run whose hosts are other machines, as one on this machine: its run directory here has the ledger, the logs and
/// the farewells, and with them the progress, the restarts and the results.

#include "ledger/file.hpp"
#include "ledger/line_reader.hpp"
#include "node/launch/launcher.hpp"
#include "node/launch/remote_host.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::node {

/// Lets hosts be started by ssh, with the cluster file and the keys of `options`. Returns an empty string, or what is
/// missing here.
std::string start_remotely(launch_options& options, const remote_options& remote);

/// Copies ledgers line by line from the arbitrators' hosts into the run directory, and prints logs where it is asked
/// to.
class remote_watch : public launch_observer {
public:
  /// `forward`: prints what the hosts log, with their names before it.
  remote_watch(const launch_options& options, const remote_options& remote, live_output& output, bool forward);

  void look(host_processes& hosts, const std::vector<ledger::row>& rows, bool training) override;
  /// Takes the workers' farewells out of what the connection brought, if that is whole.
  std::string ended(const host_end& end) override;
  bool over() const override { return false; }

  /// Once all hosts have ended: copies what is still missing. Returns an empty string, or what could not be copied.
  std::string finish();

private:
  /// A text file that grows.
  struct growing_file {
    std::string name; ///< of the host that it comes from
    std::string path;
    std::uint64_t offset = 0; ///< behind the last whole line that was read
    /// The lines that were completed since the last call. Of a line without an end its parts, so that it ends nothing.
    std::string read_lines();
  };
  /// What `dynamix-node ledger --places` says on the host, appended to a file: a place in the host's ledger and the
  /// line before it. The file begins anew with every connection, with the place alone from which that goes on.
  struct followed_ledger {
    const cluster::host* host = nullptr;
    std::string path;
    std::unique_ptr<ledger::line_reader> copied; ///< of the file
    bool marked = false;                         ///< what follows in it is the command's own
    std::uint64_t place = 0;                     ///< in the host's ledger, behind the last line that was joined
    child_process process;
    double started_seconds = 0;
  };
  /// What an earlier launcher had copied when it died: joins what it had not. A copy's rows are joined in their order,
  /// so those behind the last one that the joined ledger has are missing there.
  void take_up();
  /// Copies what the host's ledger has from its place on; `follow`: and what it gets from then on.
  std::string copy(followed_ledger& ledger, bool follow);
  void join(followed_ledger& ledger);
  void watch_starts(host_processes& hosts);
  void print_logs();
  void limit_files() const;

  const launch_options& options_;
  const remote_options& remote_;
  live_output& output_;
  std::unique_ptr<ledger::line_writer> joined_; ///< null: it cannot be written
  std::vector<followed_ledger> ledgers_;
  std::vector<growing_file> logs_; ///< that are forwarded
  /// Of a host's process: whether its script has begun.
  struct start {
    pid_t id = 0;
    double seconds = 0; ///< since when it was seen
    bool over = false;  ///< it has begun, or was ended
    bool warned = false;
    bool given_up = false;
  };
  std::map<std::string, start> starts_; ///< by host
};

} // namespace dynamix::node
