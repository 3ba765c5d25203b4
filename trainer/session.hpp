#pragma once

/// Trains this host's part of a model: the only door into the trainer for actors. Includes no Torch.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"
#include "trainer/clock.hpp"
#include "trainer/decision_slot.hpp"
#include "trainer/store.hpp"

#include <cstdint>
#include <string>

namespace dynamix::trainer {

/// A worker's place in one generation: one fixed set of workers with one process group.
struct membership {
  std::uint64_t generation = 1;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::string store_prefix;          ///< keys of this generation's process group
  std::string address = "127.0.0.1"; ///< that Gloo listens on
  std::uint32_t collective_timeout_ms = 30000;
  std::uint32_t join_timeout_ms = 60000;
};

/// One closed window as the training thread saw it.
struct window_record {
  std::uint64_t window = 0; ///< from 1
  std::uint64_t first_step = 0;
  bool final = false;
  std::uint32_t batch = 0;
  messages::decision_key decision;
  std::uint64_t global_batch = 0;
  std::uint64_t epoch = 0;
  std::uint64_t epoch_samples = 0;
  double elapsed_seconds = 0;
  messages::training_statistics statistics;
  double control_seconds = 0; ///< spent on the window itself: statistics, agreement, the observer
};

/// Told what happens, on the training thread; must return at once.
class observer {
public:
  virtual ~observer() = default;
  /// The process group stands and the first step is about to run.
  virtual void started() = 0;
  virtual void window_closed(const window_record& record) = 0;
  /// Called on rank 0 only.
  virtual void evaluated(const messages::evaluation_report& report) = 0;
  /// Called on the rank that wrote it.
  virtual void checkpoint_written(const std::string& path, std::uint64_t step) = 0;
  /// True once somebody wants this training to end at the next window boundary (all workers then end there together).
  virtual bool stop_requested() = 0;
};

struct outcome {
  bool succeeded = false;
  std::string reason; ///< "epochs completed", "target accuracy reached", "stopped", or what failed
  std::uint64_t steps = 0;
  std::uint64_t samples = 0; ///< by all workers
  std::uint64_t epochs = 0;  ///< completed
  double wall_seconds = 0;
  double final_accuracy = 0;
  double seconds_to_target = -1;        ///< negative if never
  std::uint64_t parameter_checksum = 0; ///< the same on all ranks
  std::string checkpoint;               ///< the last one written by this rank; empty if none
};

struct session_options {
  const cluster::cluster_file* file = nullptr;
  const cluster::host* host = nullptr; ///< this host, for its emulation
  std::string checkpoint_directory;    ///< empty: write none
  std::string resume_from;             ///< a checkpoint, read by rank 0 and sent to the others; empty: start anew
};

/// What can be checked before any peer is met: the data set is readable and the model fits its images.
struct preflight_problem {
  std::string field;   ///< of the cluster file: "training.model"
  std::string message; ///< empty: nothing is wrong
};
preflight_problem preflight(const cluster::training& options);

/// Trains to the end. Returns rather than throws when a peer is lost: then `succeeded` is false, and a checkpoint of
/// the last completed step is written where there is a checkpoint directory.
outcome train(const session_options& options, const membership& place, store& store, clock& clock,
              decision_slot& decisions, observer& observer);

} // namespace dynamix::trainer
