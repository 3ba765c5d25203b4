#include "actors/aggregator/completion.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

namespace dynamix::actors {
namespace {

std::size_t count_machines(const membership_state& state, const std::vector<std::uint32_t>& ranks) {
  std::set<std::string> machines;
  for (const auto rank : ranks)
    machines.insert(cluster::host_of(state.members[rank].host));
  return machines.size();
}

/// A process that has been away, where its user starts it, takes as long to come back as a slow step.
double patience_ms(const membership_state& state, const cluster::timeouts& timeouts) {
  return state.fixed_group ? timeouts.stall_timeout_ms : timeouts.rejoin_timeout_ms;
}

} // namespace

completion count_completion(double now, const membership_state& state, const cluster::timeouts& timeouts) {
  completion found{.decided = state.stop_was_asked || state.finished_before.has_value()};
  const auto claims = [](const member& one) { return one.state == member_state::departed && !one.serves; };
  if (std::ranges::none_of(state.members, claims)) // as it mostly is, of thousands that come at once
    return found;
  std::vector<std::uint32_t> open;
  for (std::uint32_t rank = 0; rank < state.members.size(); ++rank) {
    const auto& one = state.members[rank];
    if (one.serves)
      continue;
    const bool placed = std::ranges::binary_search(state.placed, rank);
    const bool came = placed && one.generation == state.generation; // as a process that still has its state
    const double since_ms = 1000 * (now - one.since_seconds);
    if (claims(one)) {
      found.claimants.push_back(rank);
      found.claimed_seconds = std::max(found.claimed_seconds, one.since_seconds);
    } else if (one.state == member_state::waiting && (came || state.generation == 0)) {
      found.deniers.push_back(rank);
    } else if (one.state == member_state::training && came) {
      open.push_back(rank);
    } else if ((one.state == member_state::lost && came && since_ms <= patience_ms(state, timeouts)) ||
               (one.state == member_state::awaited && placed && state.adopted)) {
      found.away.push_back(rank);
    }
  }
  std::ranges::copy(found.away, std::back_inserter(open));
  found.claims = count_machines(state, found.claimants);
  found.denials = count_machines(state, found.deniers);
  found.open = count_machines(state, open);
  return found;
}

std::vector<membership_change::loss> find_false_completions(double now, const membership_state& state,
                                                            const cluster::timeouts& timeouts) {
  const auto found = count_completion(now, state, timeouts);
  const bool outvoted = found.claims > 0 && !found.decided && found.denials >= found.claims + found.open;
  if (!outvoted || 1000 * (now - found.claimed_seconds) <= timeouts.silence_ms)
    return {};
  std::uint64_t steps = 0;
  for (const auto rank : found.deniers)
    steps = std::max(steps, state.members[rank].steps);
  std::vector<membership_change::loss> liars;
  for (const auto rank : found.claimants)
    liars.push_back(
        {rank, fmt::format("it said that training was complete at step {}, and {} of {} machines go on "
                           "from step {}",
                           state.members[rank].said_steps, found.denials, found.denials + found.claims, steps)});
  return liars;
}

} // namespace dynamix::actors
