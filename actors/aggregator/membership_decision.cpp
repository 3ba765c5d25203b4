#include "actors/aggregator/completion.hpp"
#include "actors/aggregator/disruption.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

namespace dynamix::actors {

namespace {

using messages::generation_change;

/// A generation that keeps failing before its first step is tried again ever later.
double barren_delay_seconds(std::uint32_t barren) {
  constexpr double longest_seconds = 5;
  return barren == 0 ? 0 : std::min(longest_seconds, 0.05 * std::exp2(std::min(barren, 10U)));
}

bool is_placed(const membership_state& state, std::uint32_t rank) {
  return std::ranges::binary_search(state.placed, rank);
}

/// Who has been silent too long, holds on to a generation that has ended, or has not come to a new arbitrator.
std::vector<membership_change::loss> find_losses(double now, const membership_state& state,
                                                 const cluster::timeouts& timeouts) {
  std::vector<membership_change::loss> losses;
  for (std::uint32_t rank = 0; rank < state.members.size(); ++rank) {
    const auto& one = state.members[rank];
    const double silence = 1000 * (now - one.seen_seconds);
    if (one.present() && silence > timeouts.silence_ms)
      losses.push_back({rank, fmt::format("it has been silent for {:.0f} ms", silence)});
    else if (one.state == member_state::training && one.told_seconds && state.phase == generation_phase::ending &&
             1000 * (now - state.phase_seconds) > timeouts.stall_timeout_ms)
      losses.push_back({rank, fmt::format("its training thread does not leave generation {}", state.generation)});
    else if (one.state == member_state::awaited && state.adopted && is_placed(state, rank) &&
             1000 * (now - state.phase_seconds) > timeouts.rejoin_timeout_ms)
      losses.push_back({rank, "it trained under the previous arbitrator and has not come to this one"});
  }
  return losses;
}

struct generation_end {
  std::string reason;
  bool unexplained = false; ///< as in membership_state
  bool nobody_went = true;  ///< the same
};

/// Why the generation cannot go on; empty while it can.
generation_end find_end(double now, const membership_state& state, const cluster::timeouts& timeouts) {
  // Before those whom it made come out of the generation, whatever their rank.
  for (const auto rank : state.placed)
    if (auto why = why_gone(state.members[rank]); !why.empty())
      return {.reason = std::move(why), .nobody_went = false};
  bool training = false;
  for (const auto rank : state.placed) {
    const auto& one = state.members[rank];
    const bool together =
        state.phase == generation_phase::regrouping && 1000 * (now - one.since_seconds) <= timeouts.silence_ms;
    if (one.state == member_state::waiting && !together) {
      // One that is late may say why it came out of an older one.
      const auto why = one.generation == state.generation && !one.detail.empty() ? ": " + one.detail : "";
      return {fmt::format("{} could not continue in it{}", one.host, why), true};
    }
    training |= one.state == member_state::training;
  }
  if (training && !state.fixed_group && 1000 * (now - state.progress_seconds) > timeouts.stall_timeout_ms)
    return {fmt::format("no step has been completed for {:.0f} s", now - state.progress_seconds)};
  // Its members agree with a step that they complete, at the latest with the next one.
  if (training && !state.fixed_group && state.phase == generation_phase::regrouping &&
      1000 * (now - state.phase_seconds) > 2.0 * timeouts.stall_timeout_ms)
    return {fmt::format("its members have not come out of it for {:.0f} s", now - state.phase_seconds)};
  return {};
}

/// Of a host that the file does not name: nobody waits for it any more, and its place is another's to take.
bool is_forgotten(double now, const membership_state& state, const cluster::timeouts& timeouts, std::uint32_t rank) {
  const auto& one = state.members[rank];
  // One that an arbitrator before this one had taken in has been away since this one began.
  const bool away = one.state == member_state::awaited && !is_placed(state, rank);
  const bool gone =
      one.state == member_state::lost || one.state == member_state::left || one.state == member_state::failed;
  const auto since = away ? state.began_seconds : one.since_seconds;
  return one.guest && !one.unused() && (away || gone) && 1000 * (now - since) > timeouts.stall_timeout_ms;
}

/// Who is lost may be started again; who has left says that it will not.
std::size_t count_expected(double now, const membership_state& state, const cluster::timeouts& timeouts) {
  std::size_t expected = 0;
  for (std::uint32_t rank = 0; rank < state.members.size(); ++rank) {
    const auto& one = state.members[rank];
    const bool counts = !one.unused() && one.state != member_state::left && !is_held(now, state, rank);
    expected += counts && !is_forgotten(now, state, timeouts, rank) ? 1 : 0;
  }
  return expected;
}

/// Of workers whose processes belong to groups that their user has made: those of the largest group that is complete,
/// or all, where nobody else is expected. Empty: neither is so.
std::vector<std::uint32_t> find_group(double now, const membership_state& state, const cluster::timeouts& timeouts,
                                      const std::vector<std::uint32_t>& present) {
  std::map<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> groups;
  for (const auto rank : present)
    groups[state.members[rank].group].push_back(rank);
  for (const auto& [size, ranks] : groups)
    if (ranks.size() == size)
      return ranks;
  return present.size() == count_expected(now, state, timeouts) ? present : std::vector<std::uint32_t>{};
}

/// Who waits beside a running generation, long enough that others who come at the same time have come too.
std::string find_newcomers(double now, const membership_state& state, const cluster::timeouts& timeouts) {
  std::string names;
  bool ready = false;
  std::vector<std::uint32_t> group; // that would train in the next one
  if (state.fixed_group) {
    for (std::uint32_t rank = 0; rank < state.members.size(); ++rank)
      if (state.members[rank].present())
        group.push_back(rank);
    group = find_group(now, state, timeouts, group);
  }
  for (std::uint32_t rank = 0; rank < state.members.size(); ++rank) {
    const auto& one = state.members[rank];
    if (one.state != member_state::waiting || is_placed(state, rank) || is_held(now, state, rank) ||
        (state.fixed_group && !std::ranges::binary_search(group, rank)))
      continue;
    names += (names.empty() ? "" : ", ") + one.host;
    ready |= 1000 * (now - one.since_seconds) >= timeouts.beat_interval_ms;
  }
  return ready ? names : "";
}

std::optional<membership_change> change_phase(double now, const membership_state& state,
                                              const cluster::timeouts& timeouts) {
  if (state.phase != generation_phase::running && state.phase != generation_phase::regrouping)
    return std::nullopt;
  membership_change change;
  if (auto end = find_end(now, state, timeouts); !end.reason.empty()) {
    change.phase = generation_phase::ending;
    change.reason = std::move(end.reason);
    change.unexplained = end.unexplained;
    change.nobody_went = end.nobody_went;
    return change;
  }
  // One that is met in mid-training may lack members that are still on their way.
  const bool complete =
      std::ranges::all_of(state.placed, [&](auto rank) { return state.members[rank].state == member_state::training; });
  if (auto who = find_newcomers(now, state, timeouts);
      state.phase == generation_phase::running && complete && !who.empty()) {
    change.phase = generation_phase::regrouping;
    change.reason = fmt::format("{} joins", who);
    return change;
  }
  return std::nullopt;
}

/// A notice may be lost on its way, with a shard that was to pass it on: one that stays where it is is told again.
std::vector<std::pair<std::uint32_t, messages::generation_notice>>
find_notices(double now, const membership_state& state, const cluster::timeouts& timeouts) {
  std::vector<std::pair<std::uint32_t, messages::generation_notice>> notices;
  const bool over = count_completion(now, state, timeouts).stands();
  for (std::uint32_t rank = 0; rank < state.members.size(); ++rank) {
    const auto& one = state.members[rank];
    if (!one.present() || (one.told_seconds && 1000 * (now - *one.told_seconds) <= timeouts.silence_ms))
      continue;
    // One that fell silent before it ever had a place is told, too, when it wakes.
    const auto generation = std::max<std::uint64_t>(1, one.generation);
    if (one.state == member_state::waiting) {
      if (over)
        notices.push_back({rank, {generation, generation_change::ended, "training is over"}});
      continue;
    }
    // A worker that was cut off may come back in a generation that is long over.
    const bool outdated = one.generation != state.generation || !is_placed(state, rank);
    // It does not know of its place yet, and would take the word for an older one's.
    if (!outdated && !state.announced)
      continue;
    if (outdated || state.phase == generation_phase::ending)
      notices.push_back({rank, {generation, generation_change::ended, outdated ? "it is over" : state.reason}});
    else if (state.phase == generation_phase::regrouping)
      notices.push_back({rank, {one.generation, generation_change::regroup, state.reason}});
  }
  return notices;
}

/// Whether those who wait are to wait no longer for others.
bool is_time_to_form(double now, const membership_state& state, const cluster::timeouts& timeouts,
                     const std::vector<std::uint32_t>& waiting) {
  const auto of = [&](std::uint32_t rank) -> const member& { return state.members[rank]; };
  if (state.fixed_group) // its user starts them, whenever that may be
    return true;
  const bool everyone = waiting.size() == count_expected(now, state, timeouts);
  const bool in_memory = std::ranges::any_of(waiting, [&](auto rank) { return of(rank).steps > 0; });
  double longest = 0;
  for (const auto rank : waiting)
    longest = std::max(longest, now - of(rank).since_seconds);
  // Others may be training under an arbitrator before this one: they get time to come.
  const auto workers =
      static_cast<std::size_t>(std::ranges::count_if(waiting, [&](auto rank) { return !of(rank).serves; }));
  const bool enough = workers >= state.workers_min;
  // Training that has begun before goes on with fewer: of the others, some may never come again.
  if (state.generation == 0 && !in_memory && state.workers_min > 0 && (enough || state.floor == 0))
    return enough && (everyone || 1000 * (now - state.began_seconds) > timeouts.rejoin_timeout_ms);
  if (state.generation == 0 && !in_memory)
    return everyone || 1000 * longest > timeouts.join_timeout_ms;
  // All that was in memory is lost, or another arbitrator knew who else there is: the others get time to come.
  if (state.generation == 0 || !in_memory)
    return everyone || 1000 * longest > timeouts.rejoin_timeout_ms;
  return true;
}

/// Generations in a row, with the one that is ending, that completed no step.
std::uint32_t count_barren(const membership_state& state) {
  return state.phase != generation_phase::ending || reached_steps(state) > state.first_steps ? 0 : state.barren + 1;
}

/// Ahead of all others that came out of the same generation, which complete the same steps. Of two, either may be
/// wrong.
bool is_alone_ahead(const membership_state& state, const std::vector<std::uint32_t>& waiting, std::uint32_t rank) {
  constexpr std::uint64_t ahead_most = 64; ///< an agent knows its client's steps a moment late
  const auto& one = state.members[rank];
  std::uint64_t others = state.first_steps;
  std::size_t count = 0;
  for (const auto each : waiting) {
    const auto& other = state.members[each];
    if (each == rank || other.serves || other.generation != one.generation ||
        cluster::host_of(other.host) == cluster::host_of(one.host))
      continue;
    others = std::max(others, other.steps);
    ++count;
  }
  return one.generation == state.generation && count >= 2 && one.steps > others + ahead_most;
}

std::optional<membership_change> form(double now, const membership_state& state, const cluster::timeouts& timeouts) {
  if (state.phase == generation_phase::running)
    return std::nullopt;
  std::vector<std::uint32_t> waiting;
  const auto newest = std::max({state.generation, state.floor, state.heard_generation});
  const auto fruitless = count_fruitless(state, timeouts);
  for (std::uint32_t rank = 0; rank < state.members.size(); ++rank) {
    const auto& one = state.members[rank];
    const bool unsettled = one.state == member_state::training || one.state == member_state::awaited;
    // Who says that training is complete is right, or is found out.
    const bool claims = one.state == member_state::departed && !one.serves;
    if (claims || (unsettled && is_placed(state, rank)))
      return std::nullopt;
    const bool acquitted = fruitless > state.fruitless && state.suspect == rank;
    if (one.state == member_state::waiting && (acquitted || !is_held(now, state, rank)))
      waiting.push_back(rank);
  }
  if (state.fixed_group)
    waiting = find_group(now, state, timeouts, waiting);
  const auto barren = count_barren(state);
  const bool workers = std::ranges::any_of(waiting, [&](auto rank) { return !state.members[rank].serves; });
  if (!workers || !is_time_to_form(now, state, timeouts, waiting) ||
      now - state.phase_seconds < barren_delay_seconds(barren))
    return std::nullopt;
  membership_change change;
  if (auto suspect = find_suspect(now, state, timeouts, fruitless, waiting)) {
    std::erase(waiting, suspect->rank);
    change.held.push_back(std::move(*suspect));
    change.tries = true;
  }
  const auto steps_of = [&](std::uint32_t rank) -> std::uint64_t {
    const auto& one = state.members[rank];
    // Who only serves has no state, and who says that it is far ahead of all others is not believed.
    if (one.serves || is_alone_ahead(state, waiting, rank))
      return 0;
    return one.steps > 0 ? one.steps : one.checkpoint_steps;
  };
  const auto order_of = [&](std::uint32_t rank) {
    const auto& one = state.members[rank];
    const auto steps = steps_of(rank);
    return std::tuple(steps, steps > 0 && one.steps > 0, !one.serves);
  };
  // The furthest; of those, one that has it in memory; of those, the lowest rank.
  const auto source =
      *std::ranges::max_element(waiting, [&](auto left, auto right) { return order_of(left) < order_of(right); });
  change.placement = messages::placement{.generation = newest + 1,
                                         .members = waiting,
                                         .source = source,
                                         .store_prefix = fmt::format("generation-{}", newest + 1)};
  change.barren = barren;
  change.fruitless = fruitless;
  change.steps = steps_of(source);
  // A new arbitrator learns only from those who come how far the newest generation got.
  auto attempted = std::max(state.attempted_steps, change.steps);
  if (state.heard_generation == newest)
    attempted = std::max(attempted, state.heard_steps);
  change.steps_lost = attempted - change.steps;
  return change;
}

} // namespace

found_place find_place(double now, const membership_state& state, const cluster::timeouts& timeouts,
                       const std::string& worker) {
  const auto host = cluster::host_of(worker);
  std::optional<std::uint32_t> unused;
  std::optional<std::uint32_t> oldest;
  std::size_t places = 0;
  std::size_t own = 0;
  for (std::uint32_t rank = 0; rank < state.members.size(); ++rank) {
    const auto& one = state.members[rank];
    places += one.guest ? 1 : 0;
    if (one.unused()) {
      unused = unused.value_or(rank);
    } else if (is_forgotten(now, state, timeouts, rank)) {
      if (!oldest || one.since_seconds < state.members[*oldest].since_seconds)
        oldest = rank;
    } else if (one.guest && cluster::host_of(one.host) == host) {
      ++own;
    }
  }
  if (own >= state.host_places_max)
    return {{},
            fmt::format("host {} has {} of the cluster's places, and no host gets more (cluster.host_places_max is {})",
                        host, own, state.host_places_max)};
  if (!unused && !oldest)
    return {{},
            fmt::format("all {} places of the cluster are taken (cluster.workers_max is {})", places,
                        state.members.size())};
  return {unused ? unused : oldest, ""};
}

std::string why_gone(const member& one) {
  if (one.state == member_state::left)
    return fmt::format("{} has left", one.host);
  if (one.state == member_state::lost || one.state == member_state::failed)
    return fmt::format("{} is lost: {}", one.host, one.detail);
  return "";
}

membership_change decide(double now_seconds, const membership_state& state, const cluster::timeouts& timeouts) {
  membership_change change;
  change.lost = find_losses(now_seconds, state, timeouts);
  change.false_completions = find_false_completions(now_seconds, state, timeouts);
  change.held = find_restless(now_seconds, state, timeouts);
  if (!change.empty())
    return change;
  if (auto changed = change_phase(now_seconds, state, timeouts))
    return *changed;
  change.notices = find_notices(now_seconds, state, timeouts);
  if (!change.notices.empty())
    return change;
  if (auto formed = form(now_seconds, state, timeouts))
    return *formed;
  return change;
}

std::string why_over(double now_seconds, const membership_state& state, const cluster::timeouts& timeouts) {
  std::size_t finished = 0;
  std::size_t gone = 0; // by their own word: nobody starts them again
  std::size_t awaited = 0;
  std::size_t unused = 0;
  std::size_t workers = 0;
  bool serving = false;
  double last = state.began_seconds;
  for (std::uint32_t rank = 0; rank < state.members.size(); ++rank) {
    const auto& one = state.members[rank];
    if (one.serves) { // nobody trains because of it
      serving |= one.present();
      continue;
    }
    ++workers;
    if (one.present())
      return "";
    finished += one.state == member_state::departed ? 1 : 0;
    const bool ended = one.state == member_state::left || one.state == member_state::failed;
    gone += ended ? 1 : 0;
    awaited += one.state == member_state::awaited ? 1 : 0;
    unused += !ended && (one.unused() || is_forgotten(now_seconds, state, timeouts, rank)) ? 1 : 0;
    last = std::max(last, one.since_seconds);
  }
  if (finished > 0 && !count_completion(now_seconds, state, timeouts).stands())
    return ""; // whoever was lost may come back, and want to go on
  if (finished > 0)
    return serving ? "" : "training has ended"; // those who serve are told so
  // Before training has begun, others may come to an open cluster.
  const bool begun = state.generation > 0 || state.floor > 0;
  if (gone > 0 && gone + unused == workers && (unused == 0 || begun))
    return "all workers have left or failed";
  const double waited_ms = 1000 * (now_seconds - last);
  // Nobody is needed any more, but whoever has not ended yet may have a farewell to say.
  if (state.finished_before && waited_ms > timeouts.rejoin_timeout_ms)
    return "training had ended before this arbitrator started";
  // Whoever is lost and started again gets as long to come as at the start, and so do all where others have trained.
  if (!state.fixed_group && (awaited < workers || state.floor > 0) && waited_ms > timeouts.join_timeout_ms)
    return fmt::format("no worker has come for {:.0f} s", now_seconds - last);
  return "";
}

} // namespace dynamix::actors
