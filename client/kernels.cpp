#include "client/kernels.hpp"

#include <algorithm>
#include <array>

namespace dynamix::client {

namespace {

constexpr std::size_t lanes = 8; ///< running sums, which hide the latency of an addition

/// Calls visit(i, lane) for every i below `count`, and sums what it returns.
template <class Visit>
double sum(std::size_t count, Visit visit) {
  std::array<double, lanes> sums{};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane)
      sums[lane] += visit(i + lane);
  for (; i < count; ++i)
    sums[0] += visit(i);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

template <class Scalar>
double scale_and_sum(Scalar* values, std::size_t count, double factor) {
  if (factor == 0) {
    std::fill_n(values, count, Scalar{0});
    return 0;
  }
  return sum(count, [values, factor](std::size_t i) {
    const auto value = static_cast<double>(values[i]);
    values[i] = static_cast<Scalar>(value * factor);
    return value * value;
  });
}

template <class Scalar>
double sum_squares(const Scalar* values, std::size_t count) {
  return sum(count, [values](std::size_t i) {
    const auto value = static_cast<double>(values[i]);
    return value * value;
  });
}

} // namespace

double scale(float* values, std::size_t count, double factor) {
  return scale_and_sum(values, count, factor);
}

double scale(double* values, std::size_t count, double factor) {
  return scale_and_sum(values, count, factor);
}

double squares(const float* values, std::size_t count) {
  return sum_squares(values, count);
}

double squares(const double* values, std::size_t count) {
  return sum_squares(values, count);
}

} // namespace dynamix::client
