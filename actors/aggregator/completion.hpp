#pragma once

/// Whether training is complete: no member's word for it is enough. Whoever says so has its machine's vote for it; a
/// member that has come out of the same generation, has its state and wants to go on, has one against it; one that
/// still trains has not voted yet. Machines vote, not workers: whoever holds one machine of many is outvoted. Knows no
/// CAF.
///
/// All members of a generation complete the same steps, so those who say farewell in good order agree within moments. A
/// host that only serves knows nothing of it, and one whose memory is gone with its process neither.

#include "actors/aggregator/membership.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dynamix::actors {

struct completion {
  std::vector<std::uint32_t> claimants; ///< ranks that say so
  std::vector<std::uint32_t> deniers;   ///< ranks that go on
  std::vector<std::uint32_t> away;      ///< ranks that are lost, or have not come to a new arbitrator, and may still
  std::size_t claims = 0;               ///< machines of the claimants
  std::size_t denials = 0;              ///< machines of the deniers
  std::size_t open = 0;                 ///< machines that have no vote yet: of those that train or are away
  double claimed_seconds = 0;           ///< when the newest claim came
  bool decided = false;                 ///< a stop was asked of all, or an arbitrator before this one knew the end

  /// Nothing that can still be said would outvote those who say so.
  bool stands() const { return claims > 0 && (decided || claims > denials + open); }
};

/// Whoever has been lost for long is not waited for.
completion count_completion(double now_seconds, const membership_state& state, const cluster::timeouts& timeouts);

/// Those who say that training is complete while as many machines or more go on with it, each with what to hold against
/// it. Nobody is found out before the others have had the silence time-out to say the same.
std::vector<membership_change::loss> find_false_completions(double now_seconds, const membership_state& state,
                                                            const cluster::timeouts& timeouts);

} // namespace dynamix::actors
