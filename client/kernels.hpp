#pragma once

#include <cstddef>

namespace dynamix::client {

/// In place: values[i] *= factor, rounded once. Returns the sum of the squares of what they were; a factor of 0 writes
/// zeros whatever the values are, and returns 0. The order of the additions depends on `count` alone.
double scale(float* values, std::size_t count, double factor);
double scale(double* values, std::size_t count, double factor);
/// The sum of squares alone, the same to the bit.
double squares(const float* values, std::size_t count);
double squares(const double* values, std::size_t count);

} // namespace dynamix::client
