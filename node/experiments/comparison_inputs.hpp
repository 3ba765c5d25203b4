#pragma once

/// What `compare` was asked for, read and checked.

#include "node/experiments/comparison_plan.hpp"
#include "node/launch/run_directory.hpp"
#include "simulator/scenario.hpp"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

struct compare_arguments {
  std::vector<std::string> clusters;
  std::string policies; ///< empty: all
  std::size_t seeds = 5;
  bool simulate = false;
  std::uint32_t episodes = 1; ///< of a policy that learns
  std::string out;
  std::uint32_t jobs = 1;
  std::vector<std::string> set;
  bool insecure = false;
  bool quiet = false;
  bool json = false;
};

struct comparison_inputs {
  std::vector<cluster::cluster_file> files;   ///< with absolute paths and distinct names
  std::vector<simulator::scenario> scenarios; ///< of the files, when simulated
  std::vector<cluster::policy_kind> policies; ///< distinct
  std::size_t seeds = 0;
  std::uint32_t episodes = 1;
  bool simulated = false;
  bool json = false;
  std::string out;
  std::optional<run_directory> default_out; ///< the same, where nobody has named it
  bool path_missing = false; ///< it was refused, and a file or directory that it was to read is not there

  /// Seeds that static-best is looked for with.
  std::size_t search_seeds() const { return simulated ? seeds : 1; }
  /// The batch sizes that static-best is looked for among; the one that the file sets, where it does.
  std::vector<std::uint32_t> grid(std::size_t cluster) const;
  /// `seed` counts from the file's.
  planned_run plan(std::size_t cluster, cluster::policy_kind policy, std::uint32_t static_batch,
                   std::size_t seed) const;
  /// "local-4: 7 policies, 5 seeds, simulated, results in runs/..."
  std::string title() const;
  /// The command line that goes on where this one was interrupted.
  std::string resume_command(const std::string& command) const;
};

/// Returns exit_done, or exit_refused after every error has been written to `err`. Writes nothing else and starts
/// nothing.
int read_inputs(const compare_arguments& arguments, comparison_inputs& inputs, std::ostream& err);

} // namespace dynamix::node
