#include "policy/window_watch.hpp"

#include "cluster/decision_steps.hpp"
#include "policy/agreed_steps.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::policy {
namespace {

// Notes, by rising weight. What a peer lays beside them counts as nothing.
constexpr float nothing = 0;
constexpr float too_short = 1;
constexpr float lasts_long = 2;
constexpr float surprised = 3;

} // namespace

std::optional<window_options> window_options_of(const cluster::cluster_file& file) {
  const auto& given = file.arbitrator;
  const bool wanted = given.surprise || given.window_shortest_seconds > 0 || given.window_longest_seconds > 0;
  const bool decided = !file.leaves_traces() && !cluster::knows_truth(given.policy);
  if (!wanted || !decided || file.training.trainer != cluster::trainer_kind::built_in)
    return std::nullopt;
  return window_options{.steps = given.window_steps,
                        .settle_steps = cluster::settle_steps(given.window_steps),
                        .surprise = given.surprise,
                        .shortest_seconds = given.window_shortest_seconds,
                        .longest_seconds = given.window_longest_seconds};
}

window_end end_of(const messages::shard_report& window, const std::optional<window_options>& options) {
  const auto steps = agree_on_steps(window, options ? options->steps : 1, window_length::varying);
  if (steps.last)
    return window_end::last;
  if (!options)
    return window_end::counted;
  const auto changed = [&](const auto& report) { return report.window == window.window && report.reflex.changes > 0; };
  if (options->surprise && std::ranges::any_of(window.reports, changed))
    return window_end::surprise;
  return steps.end_step % options->steps == 0 ? window_end::counted : window_end::overdue;
}

bool window_watch::agrees(std::uint64_t steps) const {
  return steps == agree_at_ || steps % options_.steps == options_.settle_steps;
}

float window_watch::note(const pace_tracker& own, double window_seconds) {
  const bool changed = own.changes() > std::exchange(changes_, own.changes()); // also where one is known already
  surprised_ = surprised_ || (options_.surprise && changed);
  if (window_seconds < options_.shortest_seconds)
    return too_short;
  if (surprised_)
    return surprised;
  return options_.longest_seconds > 0 && window_seconds >= options_.longest_seconds ? lasts_long : nothing;
}

window_end window_watch::close(std::uint64_t steps, std::span<const float> notes) {
  const auto number = (steps - 1) / options_.steps + 1;
  if (number <= closed_)
    return window_end::none;
  const auto any = [&](float note) { return std::ranges::find(notes, note) != notes.end(); };
  auto end = window_end::none;
  if (any(surprised))
    end = window_end::surprise;
  else if (any(lasts_long))
    end = window_end::overdue;
  else if (steps % options_.steps == 0 && (notes.empty() || std::ranges::count(notes, too_short) < std::ssize(notes)))
    end = window_end::counted;
  if (end == window_end::none)
    return end;
  closed_ = number;
  agree_at_ = steps + options_.settle_steps;
  surprised_ = false;
  return end;
}

} // namespace dynamix::policy
