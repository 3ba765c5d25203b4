#include "actors/aggregator/disruption.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>

namespace dynamix::actors {
namespace {

constexpr std::uint32_t fruitless_most = 3;
constexpr std::uint64_t fruitful_steps = 64; ///< that make up for forming a generation anew
constexpr double goings_most = 12;           ///< one in ten stall time-outs is forgotten
constexpr std::uint32_t doublings_most = 4;

/// A generation that lasts as long has time to find out that no step is completed, and to let go.
double trial_seconds(const cluster::timeouts& timeouts) {
  return 2 * timeouts.stall_timeout_ms / 1000.0;
}

/// One that has been in order for long since begins anew.
std::uint32_t holds_of(double now, const cluster::timeouts& timeouts, const member& one) {
  return now - one.held_until_seconds > 60.0 * timeouts.stall_timeout_ms / 1000 ? 0 : one.holds;
}

double hold_seconds(double now, const cluster::timeouts& timeouts, const member& one) {
  return 2 * trial_seconds(timeouts) * (1U << std::min(holds_of(now, timeouts, one), doublings_most));
}

double goings_of(double now, const cluster::timeouts& timeouts, const member& one) {
  return std::max(0.0, one.goings - (now - one.went_seconds) / (10.0 * timeouts.stall_timeout_ms / 1000));
}

/// What training has got to that another member does not have about as much of: without it, that would be lost. What it
/// says of itself counts only as far as two have said that they got, where they have.
bool carries_alone(const membership_state& state, std::uint32_t rank) {
  constexpr std::uint64_t behind_most = 64;
  const auto progress_of = [](const member& one) {
    return one.serves ? 0 : one.steps > 0 ? one.steps : one.checkpoint_steps;
  };
  const auto& own = state.members[rank];
  const auto got = state.proven > 0 ? std::min(progress_of(own), state.proven) : progress_of(own);
  return std::ranges::none_of(state.members, [&](const auto& one) {
    return &one != &own && one.present() && !one.serves && progress_of(one) + behind_most >= got;
  });
}

} // namespace

bool is_held(double now, const membership_state& state, std::uint32_t rank) {
  const auto held = [now](const member& one) { return now < one.held_until_seconds; };
  return held(state.members[rank]) && std::ranges::any_of(state.members, [&](const auto& one) {
           return one.present() && !one.serves && !held(one);
         });
}

std::uint64_t reached_steps(const membership_state& state) {
  std::array<std::uint64_t, 2> most{}; // the second first
  std::size_t workers = 0;
  for (const auto rank : state.placed) {
    const auto& one = state.members[rank];
    if (one.serves)
      continue;
    ++workers;
    if (one.steps > most[1])
      most = {most[1], one.steps};
    else
      most[0] = std::max(most[0], one.steps);
  }
  return workers < 2 ? most[1] : most[0];
}

bool has_got_on(const membership_state& state) {
  return reached_steps(state) >= state.first_steps + fruitful_steps;
}

std::uint32_t count_fruitless(const membership_state& state, const cluster::timeouts& timeouts) {
  if (state.phase_seconds - state.formed_seconds >= trial_seconds(timeouts) || has_got_on(state))
    return 0;
  return state.fruitless + (state.phase == generation_phase::ending && state.nobody_went ? 1 : 0);
}

std::optional<membership_change::hold> find_suspect(double now, const membership_state& state,
                                                    const cluster::timeouts& timeouts, std::uint32_t fruitless,
                                                    const std::vector<std::uint32_t>& waiting) {
  const auto one_of = [&](auto rank) -> const member& { return state.members[rank]; };
  const bool known =
      std::ranges::any_of(state.members, [&](const auto& one) { return holds_of(now, timeouts, one) > 0; });
  // One that did not come out, or has gone since, is not in the next one as it is.
  std::vector<std::uint32_t> candidates;
  std::ranges::copy_if(state.placed, std::back_inserter(candidates),
                       [&](auto rank) { return !why_gone(one_of(rank)).empty(); });
  const auto workers = std::ranges::count_if(waiting, [&](auto rank) { return !one_of(rank).serves; });
  const int needed = candidates.empty() ? 2 : 1;
  if (candidates.empty())
    candidates = waiting;
  // A network that is in order again soon is nobody's fault.
  const bool often = fruitless >= fruitless_most && now - state.fruitful_seconds > trial_seconds(timeouts);
  if (state.fixed_group || workers < needed || fruitless == state.fruitless || !(often || known))
    return std::nullopt;
  const auto order_of = [&](std::uint32_t rank) {
    const auto& one = one_of(rank);
    return std::tuple(-std::int64_t{one.suspected}, holds_of(now, timeouts, one), goings_of(now, timeouts, one), rank);
  };
  std::erase_if(candidates, [&](auto rank) { return carries_alone(state, rank); });
  if (candidates.empty())
    return std::nullopt;
  const auto rank =
      *std::ranges::max_element(candidates, [&](auto left, auto right) { return order_of(left) < order_of(right); });
  const double seconds = hold_seconds(now, timeouts, one_of(rank));
  return membership_change::hold{rank, seconds,
                                 fmt::format("{} generations in a row have come to nothing; the next one is formed "
                                             "without {}, which is left out for {:.0f} s if that one lasts",
                                             fruitless, one_of(rank).host, seconds)};
}

std::vector<membership_change::hold> find_restless(double now, const membership_state& state,
                                                   const cluster::timeouts& timeouts) {
  std::vector<membership_change::hold> held;
  for (std::uint32_t rank = 0; rank < state.members.size(); ++rank) {
    const auto& one = state.members[rank];
    const auto goings = goings_of(now, timeouts, one);
    if (state.fixed_group || one.state != member_state::waiting || now < one.held_until_seconds ||
        goings <= goings_most / (1U << std::min(holds_of(now, timeouts, one), doublings_most)) ||
        carries_alone(state, rank))
      continue;
    const double seconds = hold_seconds(now, timeouts, one);
    held.push_back({rank, seconds,
                    fmt::format("{} has gone and come again too often ({:.0f} times within minutes), and is left out "
                                "for {:.0f} s",
                                one.host, goings, seconds)});
  }
  return held;
}

void note_going(double now, const cluster::timeouts& timeouts, member& one) {
  one.goings = goings_of(now, timeouts, one) + 1;
  one.went_seconds = now;
}

void hold(double now, const cluster::timeouts& timeouts, member& one, double seconds) {
  one.holds = holds_of(now, timeouts, one) + 1;
  one.held_until_seconds = now + seconds;
  one.goings = 0;
}

} // namespace dynamix::actors
