#pragma once

#include "actors/interfaces.hpp"
#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"
#include "session/decision_slot.hpp"
#include "telemetry/trace_file.hpp"
#include "trainer/training_module.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dynamix::actors {

class client_listener;

struct training_options {
  std::shared_ptr<const cluster::cluster_file> file;
  cluster::host host; ///< this one
  std::string checkpoint_directory;
  storage::file_writer write_file = storage::write_private_file;
  std::string resume_from;
  cluster::timeouts timeouts;
  std::shared_ptr<dynamix::telemetry::trace_file> trace; ///< null: no trace
  std::shared_ptr<client_listener> listener = {};        ///< where the file's trainer is a client, as what follows
  std::shared_ptr<std::atomic<int>> process = {};        ///< that trains for this worker; 0: none
  std::vector<std::uint32_t> cores = {};                 ///< CPUs that it is to keep to, rising; empty: any
  std::shared_ptr<exchange::peer_links> links = {};      ///< for the built-in trainer's gradients; null: in the clear
  const trainer::training_module* module = nullptr;      ///< that has the built-in trainer; else null
};

/// What a worker actor asks of its training, whoever does it. It answers by messages: atom::report and
/// atom::evaluation, atom::beat for a generation's first step, atom::left for each generation that was left and for the
/// end. Where another process trains, also atom::ready and atom::absent. Called on the worker actor's thread.
class worker_training {
public:
  virtual ~worker_training() = default;

  /// Before anything else. A process that is to train may come from here on.
  virtual void open(caf::actor_system& system, worker_local worker) = 0;
  /// This worker is one of the cluster.
  virtual void join(std::uint32_t rank, std::shared_ptr<session::decision_slot> decisions) = 0;
  /// The next generation to train in. The one before must have been left.
  virtual void place(const messages::placement& place, store_actor store) = 0;
  /// The slot has accepted it.
  virtual void decided(const messages::decision& decision) = 0;
  /// Ends the generation at once.
  virtual void interrupt(const std::string& reason) = 0;
  /// The generation's members are to leave together.
  virtual void regroup() = 0;
  /// Training is to end at the next agreement of all members.
  virtual void request_stop() = 0;
  /// No further place will come: training ends with this reason.
  virtual void finish(const std::string& reason) = 0;

  /// Processes in the group of the one that trains; 0: it is this one.
  virtual std::uint32_t group() const { return 0; }
  /// Completed.
  virtual std::uint64_t steps() const = 0;
  /// Of the generation that was left last.
  trainer::outcome outcome() const { return locked(outcome_); }
  double control_seconds() const { return locked(control_seconds_); }
  std::vector<messages::evaluation_report> evaluations() const { return locked(evaluations_); }

protected:
  explicit worker_training(const training_options& options) : options_(options) {}
  template <class Value>
  Value locked(const Value& value) const {
    const std::scoped_lock lock(mutex_);
    return value;
  }

  const training_options options_;
  worker_local worker_;
  mutable std::mutex mutex_; ///< guards what follows
  trainer::outcome outcome_;
  double control_seconds_ = 0;
  std::vector<messages::evaluation_report> evaluations_;
};

/// As training.trainer says.
std::shared_ptr<worker_training> make_training(const training_options& options);

} // namespace dynamix::actors
