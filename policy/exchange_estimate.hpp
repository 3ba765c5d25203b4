#pragma once

/// How a step's time follows its slowest worker's: T^g = T_grad^g + T_sync^g (Pollux, arXiv 2008.12260). A worker sees
/// T_grad and T at every step, and learns g and T_sync from how the two have changed together. Pure, without Torch.

#include <array>
#include <cstddef>

namespace dynamix::policy {

class exchange_estimate {
public:
  /// A step of so many seconds, in which the slowest worker computed for so many. Ignored unless both are > 0.
  void measure(double slowest_seconds, double step_seconds);
  /// d log T / d log T_grad where the slowest computes for so long, (0, 1]; 1 before anything was measured.
  double elasticity(double slowest_seconds) const;

private:
  static constexpr std::array exponents{1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 6.0};
  using per_exponent = std::array<double, exponents.size()>;

  per_exponent exchange_{}; ///< T_sync, if that is g
  per_exponent errors_{};   ///< mean squared error of log T by what was known before the step, if that is g
  bool measured_ = false;
};

} // namespace dynamix::policy
