#pragma once

/// The processes of a local cluster by their hosts' names: started, ended, started again.

#include "actors/host/supervision.hpp"
#include "cluster/cluster_file.hpp"
#include "node/launch/child_process.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

namespace dynamix::node {

/// How a host's process came to its end.
struct host_end {
  std::string host;
  child_exit exit;
};

/// A host's process that could not be started again, which counts as failed.
struct failed_start {
  std::string host;
  std::string cause;
  actors::restart_plan plan; ///< as `host_processes::failed` makes it
};

/// Restarts are counted a host: as many within a period as the rules allow, with a delay that doubles and jitters; one
/// more failure gives the host up. All times are seconds of one monotonic clock of the caller's. Used from one thread:
/// a child ends with the thread that started it.
class host_processes {
public:
  /// What a host's process is; `resumed`: it had one before.
  using describe_child = std::function<child_options(const cluster::host&, bool resumed)>;

  host_processes(const std::vector<cluster::host>& hosts, const actors::supervision_options& rules,
                 describe_child describe);

  /// Starts every host but those that are to come `later`. Returns an empty string, or what is wrong with the first
  /// that could not be.
  std::string start_all(bool resumed, const std::set<std::string>& later = {});

  /// Who has ended since the last call; a death by signal before an error that it may have led to.
  std::vector<host_end> reap();
  /// The host's process failed: it is started again after the plan's delay, unless the plan says to give it up.
  actors::restart_plan failed(const std::string& host, double now_seconds, const std::string& cause);
  /// Starts whoever's delay is over. Returns those that could not be started.
  std::vector<failed_start> start_due(double now_seconds);
  /// One that has ended in order, or is to come now, is started as soon as it is not held down.
  void start_again(const std::string& host) { entry_of(host).restart_at_seconds = 0; }
  /// A host that is held down is not started again until it is released; one that runs goes on.
  void hold_down(const std::string& host, bool held) { entry_of(host).held = held; }
  /// Nobody is started any more.
  void cancel_restarts();

  void signal(const std::string& host, int number);
  void signal_all(int number);
  /// 0 while the host has no process.
  pid_t id(const std::string& host);
  bool running(const std::string& host) { return id(host) != 0; }
  /// As far as `reap` has told: who ends meanwhile still counts.
  bool any_running(bool workers_only) const;
  bool restart_pending(bool workers_only) const;
  bool given_up(const std::string& host) const { return entry_of(host).given_up; }
  /// Processes after the first, by host; hosts without any are left out.
  std::map<std::string, std::uint64_t> restarts() const;
  std::vector<std::string> names() const;

private:
  struct entry {
    const cluster::host* host = nullptr;
    actors::supervision supervision;
    child_process process;
    bool seen_ended = true;
    bool given_up = false;
    bool held = false;
    std::uint64_t starts = 0;
    std::optional<double> restart_at_seconds;
  };

  entry& entry_of(const std::string& host);
  const entry& entry_of(const std::string& host) const;
  std::string start(entry& of, bool resumed);

  describe_child describe_;
  std::vector<entry> entries_;
};

} // namespace dynamix::node
