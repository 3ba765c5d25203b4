#pragma once

/// Splits a global batch so that the slowest worker's step is as short as it can be. Pure.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace dynamix::policy {

/// Samples that a worker computes within so many seconds: not negative, infinity allowed, never falling with the
/// seconds. The inverse of its step time. Of one that is none (it falls, it is negative or NaN) the batch sizes are no
/// longer the best, but still within the limits, and still add up.
using capacity = std::function<double(double seconds)>;

/// Batch sizes that add up to `total` and minimise max_i t_i(b_i), by bisection on the step time T: the smallest T
/// whose capacities, rounded down and clamped to [lowest, highest_i], reach the total. What differs between the two
/// sides of the bisection (equal remainders, or a flat piece of t_i) is dealt in proportion to the difference. A total
/// that the limits do not allow becomes the nearest that they do. `highest`: one a worker; one below `lowest` counts as
/// that.
std::vector<std::uint32_t> water_fill(std::uint64_t total, std::span<const capacity> workers, std::uint32_t lowest,
                                      std::span<const std::uint32_t> highest);

/// Writes what each worker computes within so many seconds, rounded down, over `batches`.
using capacities = std::function<void(double seconds, std::vector<std::uint32_t>& batches)>;
/// The same where all capacities are to be had at once.
std::vector<std::uint32_t> water_fill(std::uint64_t total, const capacities& within, std::uint32_t lowest,
                                      std::span<const std::uint32_t> highest);

/// The same for step times b/weight: b_i in proportion to the weights as far as the limits allow, whole, adding up to
/// `total`. A weight that is not above 0 gets the least.
std::vector<std::uint32_t> split_in_proportion(std::uint64_t total, std::span<const double> weights,
                                               std::uint32_t lowest, std::span<const std::uint32_t> highest);

} // namespace dynamix::policy
