#pragma once

/// What every worker tells all others in a step: one row of whole numbers, the same for every trainer. It travels
/// behind the step's last gradients, so it costs no message of its own. From the rows of a step all workers conclude
/// alike (session/agreement.hpp, policy/balance.hpp) what holds from the next step on that nobody has dealt yet.

#include "messages/types.hpp"
#include "policy/pace_tracker.hpp"
#include "session/core_sharing.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dynamix::session {

/// What somebody wants of a generation, in rising order: where its workers agree, the strongest of all wins.
enum class step_request : std::uint8_t {
  none,
  regroup, ///< all leave at one step, to go on in another generation
  stop,    ///< all end there
};

struct step_row {
  std::array<messages::decision, 2> held;    ///< decision_slot::held(); generation and rank are not carried
  step_request request = step_request::none; ///< what this worker has been asked for
  bool without_agent = false;                ///< a script's, whose agent is gone: nobody decides for it
  std::uint64_t dealt = 0;                   ///< steps
  std::uint64_t step = 0;                    ///< completed
  std::uint64_t digest = 0;                  ///< of what must be the same on all workers
  double weight = 0;                         ///< of its gradient in this step
  double weighted_square = 0;                ///< weight times |g_i|^2; 0: not measured; infinite: g_i is not finite
  std::uint32_t highest_batch = messages::max_batch;
  policy::pace_estimate pace;    ///< of its own computing
  std::uint64_t total_batch = 0; ///< samples that it would have all compute where nobody decides; 0: as they are
  core_use cores;                ///< that it computes on, where sharing them counts
};

inline constexpr std::size_t step_row_columns = 20;
using step_row_numbers = std::array<std::int64_t, step_row_columns>;
step_row_numbers encode(const step_row& row);
/// Of any numbers; those that no row can have become the nearest that one can.
step_row decode_step_row(std::span<const std::int64_t, step_row_columns> numbers);

} // namespace dynamix::session
