#pragma once

#include "messages/types.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace dynamix::policy {

/// What has been measured about each worker, `Measured`, from each window once. Kept by host, so that it outlasts a
/// generation, in which ranks may change and windows count anew. Of the hosts of an open cluster, which come and go
/// under any number of names, the last `workers_remembered` by use.
template <class Measured>
class worker_memory {
public:
  struct entry {
    Measured& measured;
    bool fresh; ///< the report tells of a window that has not been measured yet, and in which the worker computed
  };

  static constexpr std::size_t workers_remembered = 2 * messages::max_workers; ///< more than are ever there at once

  entry of(const messages::window_report& report) {
    auto& worker = workers_[report.host];
    worker.used = ++uses_;
    if (workers_.size() > workers_remembered)
      workers_.erase(std::ranges::min_element(workers_, {}, [](const auto& each) { return each.second.used; }));
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
    std::uint64_t used = 0; ///< `uses_` at its newest report
    Measured measured = {};
  };
  std::map<std::string, memory> workers_;
  std::uint64_t uses_ = 0;
};

} // namespace dynamix::policy
