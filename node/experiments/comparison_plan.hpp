#pragma once

/// Which runs a comparison needs, where each one's files lie, and which of them are there already.

#include "cluster/cluster_file.hpp"
#include "node/experiments/run_outcome.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

/// One run to be made.
struct planned_run {
  std::size_t cluster = 0;    ///< position among the clusters that are compared
  cluster::cluster_file file; ///< with the policy, its seed and its batch size
  std::string label;          ///< "ppo", "static-best-128"
  std::string directory;      ///< OUT/CLUSTER/LABEL-seed-N
  std::uint32_t episodes = 1; ///< runs in a row, over which the policy learns
  std::uint64_t fingerprint = 0;
};

/// `file` with another policy (and for static-best its batch size) and seed; its run's files lie below `out`. A policy
/// file of another kind of policy is left out, so that each starts from parameters that are its own. Paths in the file
/// are absolute. A policy that does not learn runs one episode.
planned_run plan_run(const cluster::cluster_file& file, cluster::policy_kind policy, std::uint32_t static_batch,
                     std::uint64_t seed, bool simulated, const std::string& out, std::uint32_t episodes = 1);

/// FNV-1a over the resolved file and the contents of the files that it names: policy, profiles, workload.
std::uint64_t fingerprint_of(const cluster::cluster_file& file, bool simulated);

/// The equal batch sizes that static-best is looked for among: powers of two from batch.lowest to batch.highest, and
/// batch.initial. Rising.
std::vector<std::uint32_t> static_batch_grid(const cluster::batch& limits);

/// One batch size of the grid and its runs.
struct candidate {
  std::uint32_t batch = 0;
  std::vector<run_outcome> runs;
};
/// The position of the best: lowest mean seconds to the target, where a run that never reached it makes that infinite;
/// then highest mean accuracy; then the first.
std::size_t best_candidate(const std::vector<candidate>& candidates);

/// What a directory says about a run that is wanted.
enum class resume_decision : std::uint8_t {
  begin,             ///< nothing is there
  keep,              ///< it is finished, and the same
  repeat_unfinished, ///< it did not come to its end
  repeat_changed,    ///< it was made from another file or policy
};
resume_decision decide_resume(bool directory_exists, const std::optional<run_outcome>& found,
                              std::uint64_t fingerprint);

} // namespace dynamix::node
