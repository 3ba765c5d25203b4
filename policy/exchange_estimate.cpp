#include "policy/exchange_estimate.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::policy {
namespace {

constexpr double newest_exchange = 0.2;     ///< of the newest step
constexpr double newest_error = 0.02;       ///< of the newest step
constexpr double log_variance_floor = 1e-4; ///< of log T: steps are not known better
constexpr double least_elasticity = 0.02;   ///< an aim far below the exchange must still move

} // namespace

void exchange_estimate::measure(double slowest_seconds, double step_seconds) {
  if (!(slowest_seconds > 0) || !(step_seconds > 0))
    return;
  const double step = std::max(step_seconds, slowest_seconds);
  const double share = slowest_seconds / step;
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    const double g = exponents[i];
    const double seen = step * std::pow(std::max(1 - std::pow(share, g), 0.0), 1 / g);
    if (measured_) {
      const double expected = slowest_seconds * std::pow(1 + std::pow(exchange_[i] / slowest_seconds, g), 1 / g);
      const double error = std::clamp(std::log(step / expected), -1.0, 1.0);
      errors_[i] += newest_error * (error * error - errors_[i]);
    }
    exchange_[i] += (measured_ ? newest_exchange : 1) * (seen - exchange_[i]);
  }
  measured_ = true;
}

/// The mean over all exponents, each as likely as its errors make it.
double exchange_estimate::elasticity(double slowest_seconds) const {
  if (!measured_)
    return 1;
  const double least = std::ranges::min(errors_);
  const double variance = std::max(least, log_variance_floor);
  double weights = 0;
  double sum = 0;
  for (std::size_t i = 0; i < exponents.size(); ++i) {
    const double weight = std::exp(-(errors_[i] - least) / (2 * variance * newest_error));
    weights += weight;
    sum += weight / (1 + std::pow(exchange_[i] / slowest_seconds, exponents[i]));
  }
  return std::clamp(sum / weights, least_elasticity, 1.0);
}

} // namespace dynamix::policy
