#pragma once

/// Which decision the workers of a generation put in force, from what all of them hold by the rows of a step. Pure, and
/// without Torch.

#include "session/step_row.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dynamix::session {

/// What the workers agreed on.
struct agreement {
  std::optional<messages::decision_key> key; ///< to put in force now; nothing: all go on as they are
  std::vector<messages::decision> decisions; ///< in the rows' order, each with its own batch; empty without a key
  step_request request = step_request::none; ///< the strongest of all rows
};

/// Picks the newest decision that every row holds, that is newer than `last_applied` and that may hold from `next_step`
/// on (the first step that nobody has dealt). A decision that one worker lacks waits for the next rows. One that
/// would leave nobody with a sample is never picked. `rows` are in the order of
/// the generation's members and at least one.
agreement agree(std::span<const step_row> rows, messages::decision_key last_applied, std::uint64_t next_step);

} // namespace dynamix::session
