#pragma once

/// One host of the cluster, from its gateway's first bind to the last farewell: the only door into the actors for
/// `node/`. Includes no CAF.

#include "actors/host_events.hpp"
#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"
#include "storage/atomic_file.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::telemetry {
struct kernel_session;
}

namespace dynamix::trainer {
class training_module;
}

namespace dynamix::actors {

/// Who wants to know from outside whether this process is well, told by one thread.
struct host_watch {
  std::function<void()> started;               ///< all actors of the host are there
  std::function<void()> alive;                 ///< every `alive_interval`, as long as all supervisors answer
  std::chrono::milliseconds alive_interval{0}; ///< 0: nobody wants to know
  std::function<void()> ending;                ///< training is over; from then on `alive` is called no more
};

struct host_options {
  std::shared_ptr<const cluster::cluster_file> file; ///< with its places (cluster/places.hpp)
  std::string host;                                  ///< a name in the file, or `guest`'s
  std::string run_directory;                         ///< must exist; windows.jsonl and checkpoints/ go below it
  std::string resume_from;                           ///< a checkpoint of the workers; empty: start anew
  std::string
      policy_from; ///< a saved learner (checkpoints/policy.dynamix); empty: file.arbitrator.policy_file or fresh
  /// Where the connector dials a host, in place of its address and port in the file: a proxy of the fault injector.
  std::map<std::string, std::pair<std::string, std::uint16_t>> reach = {};
  /// Of each process that stands for workers of several hosts, by its name: their ranks (`swarm`).
  std::map<std::string, std::set<std::uint32_t>> stand_ins = {};
  bool without_worker = false; ///< run only this host's arbitrators: somebody else plays its worker (`swarm`)
  std::shared_ptr<telemetry::kernel_session> kernel = {}; ///< of this process; null: nothing is measured by eBPF
  std::string version = {};                               ///< of the program, for the ledger
  /// What trains and learns in this process, as long as that lives; null: nothing here does
  const trainer::training_module* training = nullptr;
  /// This host's own directory of keys (`links/identity.hpp`), with which it proves who it is and takes only hosts of
  /// the file that do so too; empty: in the clear.
  std::string keys = {};
  /// Checkpoints and policies: signed where somebody can check it.
  storage::file_writer write_file = storage::write_private_file;
  bool trace = false; ///< writes traces/<host>.jsonl below the run directory
  /// Where training processes join, if the file's trainer is a client: one for each of the host's workers.
  std::vector<std::string> agent_sockets = {};
  host_watch watch = {};
  /// This host, where it joins an open cluster whose file does not name it; else null.
  std::shared_ptr<const cluster::host> guest = {};

  /// Whether this host's worker trains, or its arbitrator's policy learns, in this process: then `training` is needed.
  bool trains() const;
  bool learns() const;

  /// As the file has it, or `guest`; null: neither.
  const cluster::host* own() const { return guest ? guest.get() : file->find(host); }
};

struct host_outcome {
  bool succeeded = false;
  bool left = false;    ///< in order, and the others go on
  bool stopped = false; ///< before training's end: in order or, not succeeded, while there was nothing to end so
  std::string reason;   ///< one sentence for a person
  std::vector<worker_end> workers;           ///< of this host's, as they ended
  std::vector<messages::farewell> farewells; ///< all that reached the arbitrator, where this host is it
  std::string checkpoint;                    ///< the last one that this host wrote; empty if none
};

/// Who asks a host to end.
struct host_stop_tokens {
  std::stop_token stop;     ///< anybody: all workers end together at their next agreement and write a checkpoint
  std::stop_token one_host; ///< requested before `stop` where this host alone is meant (`decide_host_stop`)
};

/// Runs the host's roles until training has ended, something failed, or a stop is requested. Blocks; call once a
/// process. Never throws.
host_outcome run_host(const host_options& options, const host_stop_tokens& stop);

} // namespace dynamix::actors
