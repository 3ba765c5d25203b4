#pragma once

/// What old runs take up and need no longer.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::node {

struct prune_options {
  std::size_t keep_runs = 0;      ///< the newest; 0: all
  std::chrono::hours keep_for{0}; ///< since a run was last written to; 0: for ever
};

struct removal {
  std::string path;   ///< a file, or a run with all that is in it
  std::string within; ///< of a file: its run, below which no symbolic link is followed
  std::uint64_t bytes = 0;
  std::string reason;
};

struct prune_plan {
  std::vector<removal> removals;
  std::vector<std::string> in_use; ///< runs that are running, or were written to within the last hour: nothing of
                                   ///< them is removed
  std::uint64_t kept_bytes = 0;    ///< of the runs, when that is done
};

/// Looks at `directory` if it is a run directory, else at those directly below it; whatever else is there is left
/// alone. Of the runs that stay, traces are not needed, nor checkpoints before the newest that can be read.
/// `problem` says why the directory cannot be read.
prune_plan plan_pruning(const std::string& directory, const prune_options& options,
                        std::chrono::file_clock::time_point now, std::string& problem);

/// Removes it. Returns what could not be removed and why, a line each.
std::vector<std::string> prune(const prune_plan& plan);

} // namespace dynamix::node
