#pragma once

/// Which decision the workers of a generation put in force at a window boundary. Pure, and without Torch: the training
/// thread gathers one row from every worker, and every worker draws the same conclusion from the same rows.

#include "messages/types.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dynamix::session {

/// What somebody wants of a generation, in rising order: where its workers agree, the strongest of all wins.
enum class boundary_request : std::uint8_t {
  none,
  regroup, ///< all leave at one step, to go on in another generation
  stop,    ///< all end there
};

/// What one worker brings to a window boundary.
struct boundary_row {
  std::array<messages::decision, 2> held;            ///< decision_slot::held(); generation and rank are not carried
  boundary_request request = boundary_request::none; ///< what this worker has been asked for
};

/// A row as numbers that a collective can gather.
inline constexpr std::size_t boundary_columns = 9;
std::array<std::int64_t, boundary_columns> encode(const boundary_row& row);
boundary_row decode_row(std::span<const std::int64_t, boundary_columns> numbers);

/// What the workers agreed on.
struct agreement {
  std::optional<messages::decision_key> key; ///< to put in force now; nothing: all go on as they are
  std::vector<messages::decision> decisions; ///< in the rows' order, each with its own batch; empty without a key
  boundary_request request = boundary_request::none; ///< the strongest of all rows
};

/// Picks the newest decision that every row holds, that is newer than `last_applied` and that may hold from `next_step`
/// on (the step that follows the boundary). A decision that one worker lacks waits for the next boundary. One that
/// would leave nobody with a sample is never picked. `rows` are in the order of
/// the generation's members and at least one.
agreement agree(std::span<const boundary_row> rows, messages::decision_key last_applied, std::uint64_t next_step);

} // namespace dynamix::session
