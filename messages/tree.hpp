#pragma once

/// What the arbitrators of a tree say to each other (ARCHITECTURE.md, "Tree of arbitrators"). As messages/types.hpp:
/// plain structs, whose ranges the codec holds.

#include "messages/types.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::messages {

/// s_global: convergence indicators over workers, as sums, so that they can be joined.
struct global_sums {
  double reports = 0;  ///< how many were summed
  double weight = 0;   ///< sum of samples
  double accuracy = 0; ///< sample-weighted sums
  double loss = 0;     ///< the same
  double iteration_seconds_max = 0;
  double noise_scale = 0;  ///< sample-weighted sum over reports with valid gradients
  double noise_weight = 0; ///< sum of their samples
  double global_batch = 0; ///< sum of the batches in force
  double batch_lowest = 0; ///< of the batches in force
  double batch_highest = 0;
  double compute_seconds = 0; ///< sum of the computing times of a step
  double compute_seconds_max = 0;
  double speed = 0; ///< sum of samples per second of computing, over reports that computed
  double speed_reports = 0;
  friend bool operator==(const global_sums&, const global_sums&) = default;
};

/// A shard's first message to its parent. The answer is a `welcome`, of which term and detail count.
struct shard_hello {
  std::uint32_t protocol = protocol_version;
  std::string cluster;
  std::uint64_t cluster_digest = 0;
  std::string host;
  std::string node;              ///< its name in the plan
  std::string parent;            ///< the node of the plan that it looks for; another may answer in its place
  std::uint64_t incarnation = 0; ///< unique a start of the shard; > 0
  std::uint32_t heartbeat_interval_ms = 0;
  friend bool operator==(const shard_hello&, const shard_hello&) = default;
};

/// A shard's worker is gone: its connection broke, or it fell silent.
struct absence {
  std::uint32_t rank = 0;
  std::uint64_t incarnation = 0;
  std::string detail; ///< for a person
  friend bool operator==(const absence&, const absence&) = default;
};

/// The signs of life of a shard's workers since its last one, which stands for its own.
struct beat_summary {
  std::string node;
  std::vector<heartbeat> beats; ///< by rising rank
  friend bool operator==(const beat_summary&, const beat_summary&) = default;
};

/// What a shard decided for one worker.
struct worker_choice {
  std::uint32_t rank = 0;
  decision_key key;                 ///< window 0: nothing was decided
  std::uint64_t policy_version = 0; ///< that decided
  std::uint32_t assigned = 0;       ///< batch before the decision
  std::uint32_t batch = 0;          ///< after it
  std::uint32_t proposed = 0;       ///< by the policy; another than `batch` where the guard or shadow mode stepped in
  std::int32_t vote = -1;           ///< action that the policy chose; -1: none
  bool acted = false;               ///< on it: something can be learned from it
  float log_probability = 0;
  float value = 0;
  // Only where the byte budget allows it (arbitrator.trajectory_kib); empty otherwise.
  std::vector<float> state;
  std::vector<float> probabilities;
  std::string reason;
  friend bool operator==(const worker_choice&, const worker_choice&) = default;
};

/// A shard's window, after it has been decided there: up the tree. A node in between sends those of its children as
/// one.
struct shard_window {
  std::uint64_t window = 0;
  std::uint64_t generation = 0;
  std::uint32_t expected = 0; ///< workers of the shard
  double gather_seconds = 0;  ///< the longest of the shards'
  double decide_seconds = 0;  ///< the same
  std::string untrained;      ///< why the policy was not trained for what it saw; empty: it was, or is not known
  std::vector<window_report> reports; ///< by rising rank; may be of an older window
  std::vector<worker_choice> choices; ///< one a report
  friend bool operator==(const shard_window&, const shard_window&) = default;
};

/// What the root rules for one worker.
struct worker_guidance {
  std::uint32_t rank = 0;
  std::uint32_t planned = 0; ///< batch in the plan with the highest goodput; 0: no plan
  std::uint32_t ruled = 0;   ///< batch to decide where the shard does not know better; 0: as it is
  friend bool operator==(const worker_guidance&, const worker_guidance&) = default;
};

/// What one window of all workers comes to: s_global, the plan and the ruling by which shards decide until the next
/// one.
struct guidance {
  std::uint64_t generation = 0; ///< 0: there is none yet
  std::uint64_t window = 0;
  global_sums sums;
  // The plan with the highest goodput against what is assigned.
  bool planned = false; ///< anything was measured
  double planned_total = 0;
  double assigned_total = 0;
  double gain = 1;
  double surprise_largest = 0;
  double exchange_over_step = 0;
  double noise_trend = 1;
  // The ruling.
  double target_seconds = 0; ///< of computing a step, > 0: every worker gets what it computes within that; 0: `ruled`
  std::uint64_t ruled_total = 0;
  std::string intervention; ///< why the guard stepped in; empty: it did not
  std::string reason;
  std::vector<worker_guidance> workers; ///< by rising rank; those of the receiver
  friend bool operator==(const guidance&, const guidance&) = default;
};

/// What a parent wants of a shard beside deciding.
struct shard_order {
  std::uint64_t term = 0;             ///< decide under at least this one
  std::vector<std::uint32_t> leaving; ///< ranks that are to go to their own shard, which is back
  bool finished = false;              ///< the run is over
  bool succeeded = false;
  std::string reason; ///< of the end
  friend bool operator==(const shard_order&, const shard_order&) = default;
};

/// Whom a parent's placement, notice or decision is for.
struct recipients {
  std::vector<std::uint32_t> ranks; ///< rising; at least one
  friend bool operator==(const recipients&, const recipients&) = default;
};

} // namespace dynamix::messages
