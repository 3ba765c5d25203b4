#pragma once

#include "messages/types.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace dynamix::policy {

/// What has been measured about each worker, `Measured`, from each window once. Kept by host, so that it outlasts a
/// generation, in which ranks may change and windows count anew.
template <class Measured>
class worker_memory {
public:
  struct entry {
    Measured& measured;
    bool fresh; ///< the report tells of a window that has not been measured yet, and in which the worker computed
  };

  entry of(const messages::window_report& report) {
    auto& worker = workers_[report.host];
    if (worker.generation != report.generation) {
      worker.generation = report.generation;
      worker.window = 0;
    }
    const bool fresh = report.window > worker.window && report.batch > 0 && report.training.steps > 0 &&
                       report.training.compute_seconds > 0;
    worker.window = std::max(worker.window, report.window);
    return {worker.measured, fresh};
  }

private:
  struct memory {
    std::uint64_t generation = 0;
    std::uint64_t window = 0;
    Measured measured = {};
  };
  std::map<std::string, memory> workers_; ///< at most the cluster file's hosts: no other is let in
};

} // namespace dynamix::policy
