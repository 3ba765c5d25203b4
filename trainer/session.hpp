#pragma once

/// Trains this host's part of a model: the only door into the trainer for actors. Includes no Torch.

#include "cluster/cluster_file.hpp"
#include "exchange/compression.hpp"
#include "exchange/group.hpp"
#include "exchange/interruption.hpp"
#include "exchange/rendezvous.hpp"
#include "messages/types.hpp"
#include "session/agreement.hpp"
#include "session/decision_slot.hpp"
#include "storage/atomic_file.hpp"
#include "trainer/clock.hpp"
#include "trainer/step_times.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::trainer {

using dynamix::session::decision_slot;
using dynamix::session::step_request;

/// A member's place in one generation: one fixed set of members with one process group. A rank is a host's position
/// among the file's members, the hosts that only serve behind the workers, the same in all generations.
struct membership : exchange::place {
  std::uint64_t generation = 1;
  std::uint32_t source = 0; ///< the member whose state all start from
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
  messages::balance_statistics balance;
};

/// Told what happens, on the training thread; must return at once.
class observer {
public:
  virtual ~observer() = default;
  /// The process group stands, all have the source's state, and the first step is about to run.
  virtual void started() = 0;
  virtual void window_closed(const window_record& record) = 0;
  /// After every step; `step` of them are completed. Must be very cheap.
  virtual void step_completed(std::uint64_t step) = 0;
  /// After every step, with the times of its parts.
  virtual void step_timed(const step_times&) {}
  /// The memory did not hold `samples` at once: from now on this worker computes `micro_batch` at once and adds up.
  virtual void memory_limited(std::uint32_t micro_batch, std::uint64_t samples) {
    static_cast<void>(micro_batch);
    static_cast<void>(samples);
  }
  /// The step's gradient was not finite, and counts for nothing. The same on all members.
  virtual void step_dropped(const std::string& reason) { static_cast<void>(reason); }
  /// For a person, once a generation: with whom this worker shares cores; empty: with none. Only where it counts.
  virtual void cores_judged(const std::string&) {}
  /// Of the data, once: files and folders that are not trained on, with the reasons.
  virtual void data_left_out(const std::vector<std::string>&) {}
  /// The links of a generation were measured, and who sums its gradients is decided. Before `started`.
  virtual void exchange_planned(const exchange::summing_plan&) {}
  /// For a person: who sums gradients or in which form has changed, and why. The same on all members.
  virtual void exchange_chosen(const std::string&) {}
  /// At the end of a generation in which sparse gradients were compressed: what it came to in the run so far.
  virtual void compressed(const exchange::compression_counts&) {}
  /// Called on the generation's first member only.
  virtual void evaluated(const messages::evaluation_report& report) = 0;
  /// Called on the member that wrote it.
  virtual void checkpoint_written(const std::string& path, std::uint64_t step) = 0;
  /// Called on the member that should have written it: there is none of this step, or it is not signed.
  virtual void checkpoint_failed(const std::string& problem, std::uint64_t step) = 0;
  /// What somebody wants now. All members agree on the strongest at the next boundary.
  virtual step_request request() = 0;
};

enum class ending : std::uint8_t {
  completed, ///< the epochs are done or the target is reached
  stopped,   ///< asked for, or nothing would come of it any more; all ended at one step
  regrouped, ///< asked for; all left at one step, and go on in the next generation
  lost,      ///< interrupted, or a peer was lost; the state is that of the last completed step, and may go on
  failed,    ///< cannot go on
};

struct outcome {
  ending how = ending::failed;
  std::string reason;      ///< "epochs completed", "target accuracy reached", "stopped", or what ended the generation
  std::uint64_t steps = 0; ///< completed
  std::uint64_t attempted_steps = 0; ///< `steps`, and one more if one was in flight when the generation ended
  std::uint64_t samples = 0;         ///< by all workers
  std::uint64_t epochs = 0;          ///< completed
  double wall_seconds = 0;           ///< of the training, with the time between generations
  double final_accuracy = 0;
  double seconds_to_target = -1;        ///< negative if never
  std::uint64_t parameter_checksum = 0; ///< the same on all members
  std::string checkpoint;               ///< the last one written by this worker; empty if none

  /// Nothing is left to train.
  bool succeeded() const { return how == ending::completed || how == ending::stopped; }
};

struct session_options {
  const cluster::cluster_file* file = nullptr;
  const cluster::host* host = nullptr;                           ///< this host, for its emulation
  std::string checkpoint_directory;                              ///< empty: write none
  storage::file_writer write_file = storage::write_private_file; ///< checkpoints
  std::string resume_from; ///< a checkpoint, read where this worker is the source and has no state; empty: start anew
};

/// What can be checked before any peer is met: the data set is readable and the model fits it.
struct preflight_problem {
  std::string field;   ///< of the cluster file: "training.model"
  std::string message; ///< empty: nothing is wrong
};
preflight_problem preflight(const cluster::cluster_file& file);

struct saved_checkpoint {
  std::string path;    ///< empty when nothing was written
  std::string problem; ///< then why
};

/// One worker's training over all its generations: the data set, the model and the state stay between them. To be used
/// by one thread at a time. Its functions are virtual for those who get one from a module (trainer/training_module.hpp)
/// and link no trainer.
class session {
public:
  /// Reads the data set, which takes a moment, unless the host only serves. Whatever is wrong is told by the first
  /// `train`. What the options point at and `time` must outlive the session.
  session(session_options options, clock& time);
  virtual ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// Trains as `place` to the end of training or of the generation; a host that only serves sums for those who train.
  /// Blocks; never throws. Raising `stop` frees every wait; a call of `rendezvous` that is under way is waited for, so
  /// its store should know of the interruption, too. Enters the generation in `decisions`.
  virtual outcome train(const membership& place, exchange::store& rendezvous, decision_slot& decisions,
                        observer& watcher, exchange::interruption& stop);
  /// Completed steps of the state in memory; 0 when there is none.
  virtual std::uint64_t steps() const;
  /// Writes a checkpoint of the last completed step under this host's name. For a worker that ends without a further
  /// generation.
  virtual saved_checkpoint save();

private:
  struct body;
  std::unique_ptr<body> body_;                    ///< null on a host that only serves
  const cluster::cluster_file* served_ = nullptr; ///< on such a host
  std::string problem_;                           ///< why nothing can be trained
};

} // namespace dynamix::trainer
