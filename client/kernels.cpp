#include "client/kernels.hpp"

#include <algorithm>
#include <array>

// For the processor at hand, chosen when the library is loaded. The same bits on all: none fuses a multiplication and
// an addition. Sanitizers do not take what runs before they do.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&              \
    !defined(__SANITIZE_THREAD__)
#define DYNAMIX_WIDE [[gnu::target_clones("avx2", "default"), gnu::flatten]]
#else
#define DYNAMIX_WIDE
#endif

namespace dynamix::client {

namespace {

constexpr std::size_t lanes = 16; ///< running sums, which hide the latency of an addition

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
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane)
      sums[lane] += sums[lane + half];
  return sums[0];
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

DYNAMIX_WIDE double scale(float* values, std::size_t count, double factor) {
  return scale_and_sum(values, count, factor);
}

DYNAMIX_WIDE double scale(double* values, std::size_t count, double factor) {
  return scale_and_sum(values, count, factor);
}

DYNAMIX_WIDE double squares(const float* values, std::size_t count) {
  return sum_squares(values, count);
}

DYNAMIX_WIDE double squares(const double* values, std::size_t count) {
  return sum_squares(values, count);
}

} // namespace dynamix::client
