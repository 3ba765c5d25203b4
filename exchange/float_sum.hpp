#pragma once

/// What several members' floats add up to, in one of two ways that do not depend on who adds.

#include <cstddef>
#include <span>

namespace dynamix::exchange {

/// `parts` holds the members' floats one after the other, each as many as `total`. In the order of the members:
/// ((parts[0] + parts[1]) + parts[2]) + ..., each addition rounded.
void sum_in_order(std::span<const float> parts, std::span<float> total);

/// The same for the exact sums, each rounded once to the nearest float (to even in a tie). Zero is +0. A sum with NaN,
/// or with infinities of both signs, is the quiet NaN; beyond the largest float it is infinite. For at most 4,096
/// members.
void sum_exactly(std::span<const float> parts, std::span<float> total);

} // namespace dynamix::exchange
