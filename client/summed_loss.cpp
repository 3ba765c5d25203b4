#include "client/summed_loss.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::client {

namespace {

constexpr double exponent_of_means_max = 0.5; ///< between 0, the most of a mean, and 1, the least of a sum
constexpr double exponent_max = 3;            ///< a sum's is at most 2, of a gradient without noise; the rest is error
constexpr double standard_errors = 3;
constexpr double ratio_min = 1.5; ///< of batches: what workers' data differ by is large beside what smaller ones do
constexpr double freedom_min = 8;

} // namespace

bool summed_loss::observe(std::span<const batch_square> workers) {
  double count = 0;
  double mean_batch = 0;
  double mean_square = 0;
  double smallest = INFINITY;
  double largest = 0;
  const auto usable = [](const batch_square& each) {
    return each.samples > 0 && each.square > 0 && std::isfinite(each.square);
  };
  for (const auto& each : workers) {
    if (!usable(each))
      continue;
    ++count;
    mean_batch += std::log(each.samples);
    mean_square += std::log(each.square);
    smallest = std::min(smallest, each.samples);
    largest = std::max(largest, each.samples);
  }
  if (told_ || count < 2 || largest < ratio_min * smallest)
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
  const double error = standard_errors * std::sqrt(residual / batches_);
  told_ = exponent() - error > exponent_of_means_max && exponent() + error < exponent_max;
  return told_;
}

} // namespace dynamix::client
