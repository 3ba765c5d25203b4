#pragma once

/// What a worker's reports come to, each window once: folded as they are read. Pure.

#include "ledger/rows.hpp"
#include "node/run_outcome.hpp"
#include "node/worker_summary.hpp"

#include <cstdint>
#include <optional>

namespace dynamix::node {

class worker_course {
public:
  static constexpr std::size_t batches_kept = 400;

  /// By windows; one that was reported before is counted once: a report that stood in for a late one, or that was
  /// trained again after a resume.
  void add(const ledger::worker& row);

  std::uint64_t reports() const { return reports_; }
  std::uint32_t lowest_batch() const { return lowest_batch_; }
  std::uint32_t highest_batch() const { return highest_batch_; }
  std::uint32_t last_batch() const { return sums_.last_batch; }
  /// Reports with the last batch size, since there was another.
  std::uint64_t same_batch() const { return same_batch_; }
  double elapsed_seconds() const { return elapsed_seconds_; }
  /// Over time, evenly thinned.
  std::vector<double> batches() const;
  /// Adds batch sizes, samples, steps and means to what is known of the worker.
  void describe(worker_summary& worker) const;

private:
  std::optional<std::uint64_t> window_; ///< the newest
  std::uint64_t reports_ = 0;
  std::uint64_t same_batch_ = 0;
  std::uint32_t lowest_batch_ = 0;
  std::uint32_t highest_batch_ = 0;
  double elapsed_seconds_ = 0;
  worker_summary sums_; ///< times: over all steps
  double split_steps_ = 0;
  thinned_rows batches_{batches_kept};
};

} // namespace dynamix::node
