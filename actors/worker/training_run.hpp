#pragma once

/// The training thread and what it shares with its worker actor. A plain thread, never a pooled handler: it blocks in
/// collectives.

#include "actors/worker/worker_training.hpp"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace dynamix::actors {

/// One worker's training over all generations, in this process. The thread waits for a place, trains in it, tells its
/// outcome, and waits for the next. It holds a share of this object and is never joined: one that hangs is left to the
/// process's end.
class training_run final : public worker_training, public std::enable_shared_from_this<training_run> {
public:
  explicit training_run(const training_options& options) : worker_training(options) {}
  ~training_run() override;
  training_run(const training_run&) = delete;
  training_run& operator=(const training_run&) = delete;

  void open(caf::actor_system& system, worker_local worker) override;
  /// Starts the thread.
  void join(std::uint32_t rank, std::shared_ptr<session::decision_slot> decisions) override;
  void place(const messages::placement& place, store_actor store) override;
  void decided(const messages::decision&) override {} // the thread looks into the slot
  void interrupt(const std::string& reason) override;
  void regroup() override { regroup_.store(true, std::memory_order_relaxed); }
  void request_stop() override { stop_.store(true, std::memory_order_relaxed); }
  /// A checkpoint is written before the thread ends.
  void finish(const std::string& reason) override;

  std::uint64_t steps() const override { return steps_.load(std::memory_order_relaxed); }

private:
  friend class training_observer;
  struct order {
    trainer::membership place;
    store_actor store;
    std::shared_ptr<exchange::interruption> stop;
  };

  void run();
  std::optional<order> await_order();
  void tell(trainer::outcome outcome);

  caf::actor_system* system_ = nullptr;
  std::uint32_t rank_ = 0;
  std::shared_ptr<session::decision_slot> decisions_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> regroup_ = false;
  std::atomic<std::uint64_t> steps_ = 0;
  std::shared_ptr<exchange::interruption> interruption_; ///< the worker actor's own

  // Guarded by the mutex.
  std::condition_variable ordered_;
  std::optional<order> order_;
  std::optional<std::string> last_reason_; ///< set: finish
  std::thread thread_;
};

} // namespace dynamix::actors
