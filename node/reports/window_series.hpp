#pragma once

/// A run's course as columns of numbers, one row per window: what charts draw. Pure.

#include "ledger/worker_course.hpp"

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace dynamix::node {

/// What a chart leaves out.
inline constexpr double absent = std::numeric_limits<double>::quiet_NaN();

enum class column : std::size_t {
  seconds,            ///< of training, at the window's end
  samples,            ///< of all workers, up to the window's end
  batch_accuracy,     ///< mean weighted by samples, [0, 1]
  batch_loss,         ///< the same
  samples_per_second, ///< of the window's timed steps
  global_batch,
  noise_scale, ///< as the decision knew it; NaN while not measured
  reward,      ///< mean over the workers
  reward_low,  ///< the worst worker's
  reward_high,
  entropy, ///< of the policy's probabilities over that of even odds, mean, [0, 1]; NaN without probabilities
  guarded, ///< 1 where the guard stepped in
  // Where a step's time goes: seconds per step, means over the workers. The last four are NaN, and `exchange` holds
  // what they would split, where the ledger does not attribute the time.
  compute,
  exchange,
  data,
  cpu_wait,
  network,
  barrier,
  other,
  count
};
inline constexpr std::size_t columns = static_cast<std::size_t>(column::count);
using window_row = std::array<double, columns>;

/// A mean of what some workers have.
struct mean {
  double sum = 0;
  double weight = 0;

  void add(double value, double by = 1) {
    sum += by * value;
    weight += by;
  }
  double value() const { return weight > 0 ? sum / weight : std::numeric_limits<double>::quiet_NaN(); }
};

/// Entropy as a share of that of even odds, [0, 1]. Of two probabilities or more.
double entropy_share(const std::vector<float>& probabilities);

using ledger::is_known;

/// As in a comparison's saved results.
const char* name_of(column which);

/// Sums windows up in their order; `samples` counts on.
class window_columns {
public:
  window_row add(const policy::judged_window& window);

private:
  double samples_ = 0;
  double seconds_ = 0;
};

/// The rows that are kept of a run.
struct window_series {
  std::vector<window_row> rows;

  std::vector<double> of(column which, double factor = 1) const;
  /// Whether any row has a number there.
  bool has(column which) const;
};

} // namespace dynamix::node
