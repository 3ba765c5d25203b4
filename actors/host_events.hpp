#pragma once

/// What the actors tell the thread that waits in run_host. Thread-safe; knows no CAF.

#include "messages/types.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::actors {

/// How a part of the host ended.
struct part_outcome {
  bool succeeded = false;
  std::string reason;
  bool stopped = false; ///< before training's end: in order or, not succeeded, while there was nothing to end so
};

/// What one of the host's workers has left behind.
struct worker_end {
  part_outcome outcome;
  messages::farewell farewell; ///< empty `host` where its training never began
  std::vector<messages::evaluation_report> evaluations;
};

class host_events {
public:
  explicit host_events(std::size_t workers = 1) : workers_(workers) {}

  void worker_ended(worker_end end, std::string checkpoint);
  void arbitrator_ended(part_outcome outcome, std::vector<messages::farewell> farewells);
  /// A supervisor gave up, or a part cannot go on: the host ends.
  void failed(std::string reason);

  /// True as soon as the parts named have ended, or one has failed; false after `wait`.
  bool wait_ended(bool worker, bool arbitrator, std::chrono::milliseconds wait);

  struct snapshot {
    std::optional<part_outcome> worker; ///< of all of them, once all have ended: a failure where there is one
    std::optional<part_outcome> arbitrator;
    std::optional<std::string> failure;
    std::vector<worker_end> workers;
    std::vector<messages::farewell> farewells;
    std::string checkpoint;
  };
  snapshot take() const;

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  snapshot state_;
  const std::size_t workers_;
};

} // namespace dynamix::actors
