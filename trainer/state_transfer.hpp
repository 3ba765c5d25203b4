#pragma once

#include "exchange/group.hpp"
#include "trainer/session.hpp"
#include "trainer/training_state.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace dynamix::trainer {

/// Every member's `state` becomes the one that the source sends as the `bytes` of a checkpoint (those of the others do
/// not matter), regrouped for `place`: the same bytes, read the same way. Returns an empty string, or what is wrong
/// with them, on every member. Throws exchange::error.
std::string take_state_of_source(training_state& state, const membership& place, exchange::group& peers,
                                 std::span<const std::uint8_t> bytes);

} // namespace dynamix::trainer
