#pragma once

#include "simulator/world.hpp"

#include <cstdint>
#include <vector>

namespace dynamix::simulator {

/// The batch sizes with the highest true goodput, each from limits.lowest to its `now.highest`, to within a thousandth
/// of that goodput.
///
/// For every step time T the workers compute as much as T allows, since samples never harm; what is left is the best T.
/// Between two step times no goodput exceeds what the longer one computes in the shorter one's time, so whole ranges of
/// T are ruled out at once. Where cores are shared, when a worker computes decides who else waits, so
/// goodput is rugged: the result is improved by moving samples until no move helps, and ends within a tenth of the
/// best.
std::vector<std::uint32_t> best_batches(const truth& now, const cluster::batch& limits);

} // namespace dynamix::simulator
