#pragma once

/// The training thread and what it shares with its worker actor. A plain thread, never a pooled handler: it blocks in
/// collectives.

#include "actors/interfaces.hpp"
#include "messages/types.hpp"
#include "telemetry/trace_file.hpp"
#include "trainer/session.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace dynamix::actors {

struct training_options {
  std::shared_ptr<const cluster::cluster_file> file;
  std::string host;
  std::string checkpoint_directory;
  std::string resume_from;
  cluster::timeouts timeouts;
  std::shared_ptr<dynamix::telemetry::trace_file> trace; ///< null: no trace
};

/// One worker's training over all generations. The thread waits for a place, trains in it, tells its outcome, and waits
/// for the next. It holds a share of this object and is never joined: one that hangs is left to the process's end.
class training_run : public std::enable_shared_from_this<training_run> {
public:
  training_run(const training_options& options, std::uint32_t rank, std::shared_ptr<session::decision_slot> decisions);
  ~training_run();
  training_run(const training_run&) = delete;
  training_run& operator=(const training_run&) = delete;

  /// Starts the thread. It reports to `worker` by messages; atom::left says that `outcome` tells of one more
  /// generation.
  void start(caf::actor_system& system, worker_local worker);
  /// The next generation to train in. The one before must have been left.
  void place(const messages::placement& place, store_actor store);
  /// Ends the generation at once.
  void interrupt(const std::string& reason);
  /// The generation's members are to leave together.
  void regroup() { regroup_.store(true, std::memory_order_relaxed); }
  void request_stop() { stop_.store(true, std::memory_order_relaxed); }
  /// No further place will come: a checkpoint is written, and the thread ends with this reason.
  void finish(const std::string& reason);

  std::uint64_t steps() const { return steps_.load(std::memory_order_relaxed); }
  trainer::outcome outcome() const;
  double control_seconds() const;
  std::vector<messages::evaluation_report> evaluations() const;

private:
  friend class training_observer;
  struct order {
    trainer::membership place;
    store_actor store;
    std::shared_ptr<exchange::interruption> stop;
  };

  void run(caf::actor_system& system, const worker_local& worker);
  std::optional<order> await_order();
  void tell(const worker_local& worker, trainer::outcome outcome);

  training_options options_;
  std::uint32_t rank_;
  std::shared_ptr<session::decision_slot> decisions_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> regroup_ = false;
  std::atomic<std::uint64_t> steps_ = 0;
  std::shared_ptr<exchange::interruption> interruption_; ///< the worker actor's own

  mutable std::mutex mutex_; ///< guards all below
  std::condition_variable ordered_;
  std::optional<order> order_;
  std::optional<std::string> last_reason_; ///< set: finish
  trainer::outcome outcome_;
  double control_seconds_ = 0;
  std::vector<messages::evaluation_report> evaluations_;
  std::thread thread_;
};

} // namespace dynamix::actors
