#include "client/introduction.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <map>
#include <string_view>

namespace dynamix::client {

namespace {

constexpr std::uint32_t ahead_max = 1023; // with the largest batch 2^30 samples
constexpr std::uint32_t lanes_max = 1024;

/// Calls number(field) for each field of an introduction, in the order of its columns.
template <class Introduction, class Number>
void visit_columns(Introduction& of, Number&& number) {
  number(of.version);
  number(of.position);
  number(of.members);
  number(of.batch.initial);
  number(of.batch.lowest);
  number(of.batch.highest);
  number(of.samples);
  number(of.seed);
  number(of.shuffled);
  number(of.drop_last);
  number(of.rule);
  number(of.adaptive);
  number(of.noise_interval);
  number(of.window_steps);
  number(of.balances);
  number(of.shards);
  number(of.has_agent);
  number(of.rank);
  number(of.workers);
  number(of.cluster_seed);
  number(of.batch.first);
  number(of.ahead);
  number(of.lanes);
}

/// What must be the same on all members, with its name.
struct common_number {
  std::string_view name;
  std::uint64_t value;
  std::string_view advice;
};

std::array<common_number, 14> common_numbers(const introduction& of) {
  return {{{"the version of the library", of.version, "use the same libdynamix everywhere"},
           {"the number of members", of.members, "use one process group"},
           {"samples per epoch", of.samples, "give all the whole data set, not a part by rank"},
           {"the hash of the shards and their lengths", of.shards, "give all members the same list in the same order"},
           {"shuffle", of.shuffled, "pass the same value everywhere"},
           {"drop_last", of.drop_last, "pass the same value everywhere"},
           {"the learning-rate rule", static_cast<std::uint64_t>(of.rule), "pass the same value everywhere"},
           {"whether the optimiser is adaptive", of.adaptive, "use the same optimiser everywhere"},
           {"the noise's interval", of.noise_interval, "pass the same value everywhere"},
           {"steps per window", of.window_steps, "use the same cluster file everywhere"},
           {"whether shares follow paces", static_cast<std::uint64_t>(of.balances), "pass the same value everywhere"},
           {"whether there is an agent", of.has_agent, "start an agent for every process, or for none"},
           {"the cluster file's workers", of.workers, "use the same cluster file everywhere"},
           {"the cluster file's seed", of.cluster_seed, "use the same cluster file everywhere"}}};
}

} // namespace

std::array<std::int64_t, introduction_columns> encode(const introduction& of) {
  std::array<std::int64_t, introduction_columns> numbers{};
  std::size_t column = 0;
  visit_columns(of, [&](const auto& field) { numbers[column++] = static_cast<std::int64_t>(field); });
  return numbers;
}

introduction decode_introduction(std::span<const std::int64_t, introduction_columns> numbers) {
  introduction of;
  std::size_t column = 0;
  visit_columns(of, [&]<class Field>(Field& field) { field = static_cast<Field>(numbers[column++]); });
  return of;
}

std::string fit_together(std::span<const introduction> all, std::uint32_t position, lockstep_options& begun) {
  const auto first = common_numbers(all[0]);
  std::map<std::uint32_t, std::size_t> by_rank;
  begun.members.clear();
  begun.lanes.clear();
  begun.ahead = 0;
  for (std::size_t member = 0; member < all.size(); ++member) {
    const auto& each = all[member];
    const auto own = common_numbers(each);
    for (std::size_t i = 0; i < own.size(); ++i)
      if (own[i].value != first[i].value)
        return fmt::format("the members do not fit together: {} is {} on member 0 and {} on member {}; {}", own[i].name,
                           first[i].value, own[i].value, member, own[i].advice);
    if (each.position != member)
      return fmt::format("the row at {} is that of member {}: rows go by position", member, each.position);
    if (const auto [same, added] = by_rank.emplace(each.rank, member); each.has_agent && !added)
      return fmt::format("members {} and {} are both served as worker {} of the cluster file: each needs an agent of "
                         "its own",
                         same->second, member, each.rank);
    begun.members.push_back(each.batch);
    begun.lanes.push_back(std::clamp(each.lanes, 1U, lanes_max));
    begun.ahead = std::max(begun.ahead, std::min(each.ahead, ahead_max));
  }
  std::uint64_t total = 0;
  for (const auto& each : all)
    total += each.batch.initial;
  if (all[0].drop_last && all[0].samples < total)
    return fmt::format(
        "drop_last leaves no step of an epoch of {} samples, fewer than the {} of all members' batches: use "
        "smaller batches, or no drop_last",
        all[0].samples, total);
  begun.position = position;
  begun.samples = all[0].samples;
  begun.identity = all[0].shards;
  begun.seed = all[0].seed;
  begun.shuffled = all[0].shuffled;
  begun.drop_last = all[0].drop_last;
  begun.rule = all[0].rule;
  begun.adaptive = all[0].adaptive;
  begun.noise_interval = all[0].noise_interval;
  begun.window_steps = all[0].window_steps;
  begun.balances = all[0].balances;
  begun.decides = all[0].has_agent;
  return {};
}

} // namespace dynamix::client
