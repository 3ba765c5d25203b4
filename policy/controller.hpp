#pragma once

/// What decides batch sizes. Every policy, learned or not, stands behind `controller`. Includes no Torch.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::policy {

/// What a controller sees when a window has closed.
struct observation {
  const messages::shard_report* report = nullptr;
  /// Batch size last decided for each report, in the reports' order (not always in force yet).
  std::vector<std::uint32_t> assigned;
};

/// What it chose for one worker, and everything needed to explain it and to learn from it.
struct choice {
  std::uint32_t rank = 0;
  std::uint32_t batch = 0;          ///< inside [lowest, highest]
  std::int32_t action = -1;         ///< index into the actions; -1 for controllers without actions
  std::vector<float> state;         ///< normalised; empty for controllers that use none
  std::vector<float> probabilities; ///< of the actions
  float log_probability = 0;
  float value = 0;
  std::string reason; ///< one sentence for a person
};

class controller {
public:
  virtual ~controller() = default;
  virtual std::string name() const = 0;
  /// One choice a report, in the reports' order. The same observations and seed give the same choices.
  virtual std::vector<choice> decide(const observation& observed) = 0;
  /// True if it learns from trajectories.
  virtual bool learns() const { return false; }
  /// Takes new parameters; an error message if they do not fit. Controllers that do not learn refuse.
  virtual std::string adopt(const messages::policy_version& version);
  virtual std::uint64_t version() const { return 0; }
};

/// The controller that the file names. `parameters` (a tensor file's bytes) replaces fresh ones where not empty.
/// Throws std::invalid_argument when they do not fit.
std::unique_ptr<controller> make_controller(const cluster::cluster_file& file, const std::vector<std::uint8_t>& parameters);

} // namespace dynamix::policy
