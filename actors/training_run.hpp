#pragma once

/// The training thread and what it shares with its worker actor. A plain thread, never a pooled handler: it blocks in
/// collectives.

#include "actors/interfaces.hpp"
#include "messages/types.hpp"
#include "trainer/session.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace dynamix::actors {

struct training_options {
  cluster::cluster_file file;
  std::string host;
  std::string checkpoint_directory;
  std::string resume_from;
  std::chrono::milliseconds request_timeout{2000};
};

/// One worker's training in one generation. The thread holds a share of it and is never joined: one that hangs in a
/// collective is left to the process's end.
class training_run : public std::enable_shared_from_this<training_run> {
public:
  training_run(const training_options& options, const messages::welcome& place);
  ~training_run();
  training_run(const training_run&) = delete;
  training_run& operator=(const training_run&) = delete;

  /// Starts the thread. It reports to `worker` by messages, the last of which is atom::ended.
  void start(caf::actor_system& system, worker_local worker, store_actor store);
  void request_stop() { stop_.store(true, std::memory_order_relaxed); }
  /// Ends a rendezvous that cannot succeed any more.
  void abort(std::string reason);

  trainer::decision_slot& decisions() { return decisions_; }
  const trainer::membership& place() const { return place_; }
  /// Valid once atom::ended has been received.
  const trainer::outcome& outcome() const { return outcome_; }
  double control_seconds() const { return control_seconds_; }
  const std::vector<messages::evaluation_report>& evaluations() const { return evaluations_; }

private:
  friend class training_observer;
  void run(caf::actor_system& system, const worker_local& worker, const store_actor& store);

  training_options options_;
  trainer::membership place_;
  trainer::decision_slot decisions_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> aborted_ = false;
  std::string abort_reason_; ///< written once, before aborted_
  // Written by the thread, read after atom::ended.
  trainer::outcome outcome_;
  double control_seconds_ = 0;
  std::vector<messages::evaluation_report> evaluations_;
  std::thread thread_;
};

} // namespace dynamix::actors
