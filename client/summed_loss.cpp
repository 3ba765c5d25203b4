#include "client/summed_loss.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::client {

namespace {

constexpr double exponent_of_means_max = 0.5; ///< between 0, the most of a mean, and 1, the least of a sum
constexpr double standard_errors = 3;
constexpr double freedom_min = 8;

} // namespace

bool summed_loss::observe(std::span<const batch_square> workers) {
  double count = 0;
  double mean_batch = 0;
  double mean_square = 0;
  const auto usable = [](const batch_square& each) {
    return each.samples > 0 && each.square > 0 && std::isfinite(each.square);
  };
  for (const auto& each : workers) {
    if (!usable(each))
      continue;
    ++count;
    mean_batch += std::log(each.samples);
    mean_square += std::log(each.square);
  }
  if (told_ || count < 2)
    return false;
  for (const auto& each : workers) {
    if (!usable(each))
      continue;
    const double batch = std::log(each.samples) - mean_batch / count;
    const double square = std::log(each.square) - mean_square / count;
    batches_ += batch * batch;
    squares_ += square * square;
    both_ += batch * square;
  }
  freedom_ += count - 1;
  if (freedom_ < freedom_min || !(batches_ > 0))
    return false;
  const double residual = std::max(0.0, squares_ - exponent() * both_) / freedom_;
  told_ = exponent() - standard_errors * std::sqrt(residual / batches_) > exponent_of_means_max;
  return told_;
}

} // namespace dynamix::client
