#pragma once

/// Whether the workers' losses are sums over their batches, and not means. The square of a mean's gradient over b
/// samples is |G|^2 + tr/b, which falls with b; a sum's is b^2 times that, which grows by its first power at least.
/// Weights by samples suit means only.

#include <span>

namespace dynamix::client {

/// One worker's part of a step.
struct batch_square {
  double samples = 0;
  double square = 0; ///< |g_i|^2
};

class summed_loss {
public:
  /// Of one step, by a fit of log |g_i|^2 to log b_i within each step: what steps differ by does not matter. Returns
  /// whether the exponent is now, for the first time, above a half and below 3 by three standard errors: a larger one
  /// is not a sum's, but comes of workers whose data differ.
  bool observe(std::span<const batch_square> workers);
  double exponent() const { return batches_ > 0 ? both_ / batches_ : 0; }

private:
  double batches_ = 0; ///< sum of the squared deviations of log b_i
  double squares_ = 0; ///< of log |g_i|^2
  double both_ = 0;    ///< of their products
  double freedom_ = -1;
  bool told_ = false;
};

} // namespace dynamix::client
