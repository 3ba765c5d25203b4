#include "actors/aggregator/membership.hpp"

#include "actors/aggregator/completion.hpp"
#include "actors/aggregator/disruption.hpp"
#include "cluster/places.hpp"
#include "messages/leave.hpp"
#include "messages/validation.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

namespace dynamix::actors {

using messages::welcome_verdict;

namespace {

/// Rounds of `decide` in one `next`: losses, phase, notices, placement, and some to spare.
constexpr int rounds_most = 16;

constexpr std::size_t names_told = 32;

/// Counters of a peer that nothing is known about are believed up to here, and others up to so much more than what is
/// known: what is counted on from them must still fit into a message.
constexpr std::uint64_t counter_believed_most = messages::max_counter / 32;
constexpr std::uint64_t counter_ahead_most = 1U << 20;

/// Steps of a worker that nothing is known about: a step a millisecond for three months.
constexpr std::uint64_t steps_believed_most = 1ULL << 33;

bool is_plausible(std::uint64_t said, std::uint64_t known, std::uint64_t believed_most) {
  return said <= std::max(believed_most, known + counter_ahead_most);
}

std::string joined(const std::vector<std::string_view>& names) {
  if (names.empty())
    return "nobody";
  if (names.size() == 1)
    return std::string{names.front()};
  // Thousands of names would help nobody, a line for each that joins least of all.
  if (names.size() > names_told)
    return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + names_told, ", "),
                       names.size() - names_told);
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

/// What a worker says of itself, of which thousands may come at once: little enough for a row and a line of each, and
/// unable to end the field of a line in which it stands.
std::string quotable(std::string_view said) {
  constexpr std::size_t bytes_max = 256;
  auto text = messages::fit_text(said.substr(0, bytes_max));
  std::ranges::replace(text, '"', '\'');
  std::ranges::replace_if(
      text, [](char each) { return each == '\n' || each == '\t'; }, ' ');
  return text;
}

} // namespace

membership::membership(const cluster::cluster_file& file, const cluster::timeouts& timeouts, std::uint64_t floor,
                       std::optional<std::uint32_t> finished_before, const std::vector<std::string>& names)
    : cluster_(file.name), digest_(file.digest()), timeouts_(timeouts) {
  state_.floor = floor;
  state_.finished_before = finished_before;
  state_.fixed_group = file.training.trainer == cluster::trainer_kind::client;
  state_.workers_min = file.workers_min;
  state_.host_places_max = file.host_places_max;
  for (const auto* host : file.members()) {
    const auto rank = state_.members.size();
    const bool guest = cluster::is_place(*host);
    state_.members.push_back({.host = !guest                ? host->name
                                      : rank < names.size() ? names[rank]
                                                            : "",
                              .guest = guest,
                              .serves = host->only_serves(),
                              .detail = {}});
  }
}

messages::welcome membership::refuse(welcome_verdict verdict, std::string detail) const {
  messages::welcome answer;
  answer.verdict = verdict;
  answer.detail = messages::fit_text(detail); // the names of thousands of hosts would not fit
  return answer;
}

namespace {

/// Each is a row of the ledger, and may begin a generation. Who reconnects waits longer each time, who restarts, too.
constexpr int joins_at_once_max = 30;

double joins_of(const member& one, double now_seconds) {
  return std::max(0.0, one.joins - (now_seconds - one.joined_seconds));
}

} // namespace

/// Of a host that has no rank.
messages::welcome membership::check_guest(const messages::hello& hello, double now_seconds) const {
  const bool open = std::ranges::any_of(state_.members, &member::guest);
  if (!open || !cluster::is_worker_name(hello.host))
    return refuse(welcome_verdict::unknown_host, fmt::format("host {} has no worker in the cluster file", hello.host));
  if (hello.training)
    return refuse(welcome_verdict::unknown_host,
                  fmt::format("host {} trains under a rank that this arbitrator did not give it", hello.host));
  if (ending(now_seconds))
    return {.detail = "welcome", .leader = {}};
  if (const auto found = find_place(now_seconds, state_, timeouts_, hello.host); !found.rank)
    return refuse(welcome_verdict::unknown_host, found.reason);
  return {.detail = "welcome", .leader = {}};
}

messages::welcome membership::check(const messages::hello& hello, double now_seconds) const {
  const auto protocol = messages::common_protocol(messages::protocols_of(hello));
  if (protocol == 0)
    return refuse(welcome_verdict::protocol_mismatch,
                  fmt::format("host {} speaks {}, this arbitrator {}; run the same release on every host, or two that "
                              "have a protocol in common",
                              hello.host, to_text(messages::protocols_of(hello)), to_text(messages::protocol_range{})));
  if (hello.cluster != cluster_)
    return refuse(welcome_verdict::cluster_mismatch,
                  fmt::format("host {} belongs to cluster {}, this is {}", hello.host, hello.cluster, cluster_));
  if (hello.cluster_digest != digest_)
    return refuse(
        welcome_verdict::cluster_mismatch,
        fmt::format("host {} read another version of the cluster file; copy the same one to every host", hello.host));
  if (hello.heartbeat_interval_ms != timeouts_.heartbeat_interval_ms)
    return refuse(welcome_verdict::heartbeat_mismatch,
                  fmt::format("host {} sends a heartbeat every {} ms, this arbitrator every {} ms", hello.host,
                              hello.heartbeat_interval_ms, timeouts_.heartbeat_interval_ms));
  const auto found = std::ranges::find(state_.members, hello.host, &member::host);
  if (found == state_.members.end()) {
    if (auto refusal = check_guest(hello, now_seconds); refusal.verdict != welcome_verdict::accepted)
      return refusal;
  } else if (found->present() && found->incarnation != hello.incarnation) {
    return refuse(welcome_verdict::duplicate_host,
                  fmt::format("host {} is already connected from another process", hello.host));
  }
  if (found != state_.members.end() && joins_of(*found, now_seconds) > joins_at_once_max)
    return refuse(welcome_verdict::duplicate_host,
                  fmt::format("host {} has joined more than {} times within seconds", hello.host, joins_at_once_max));
  const bool same = found != state_.members.end() && found->incarnation == hello.incarnation;
  // Its farewell has overtaken it.
  if (same && (found->state == member_state::left || found->state == member_state::failed))
    return refuse(welcome_verdict::generation_closed,
                  fmt::format("host {} has {}", hello.host, found->state == member_state::left ? "left" : "failed"));
  const bool departed = found != state_.members.end() && found->state == member_state::departed;
  if ((ending(now_seconds) && !(same && found->present() && hello.training)) || departed)
    return refuse(welcome_verdict::generation_closed,
                  fmt::format("training is over (finished: {}; failed: {}; lost: {})", names(member_state::departed),
                              names(member_state::failed), names(member_state::lost)));
  if (hello.training && hello.members.back() >= state_.members.size())
    return refuse(
        welcome_verdict::cluster_mismatch,
        fmt::format("host {} trains with rank {}, which is not in the cluster file", hello.host, hello.members.back()));
  if (auto why = why_implausible(hello); !why.empty())
    return refuse(welcome_verdict::cluster_mismatch, std::move(why));
  return {.detail = "welcome", .leader = {}, .protocol = protocol};
}

/// A worker in mid-training meets a new arbitrator: its generation goes on. Not where this one has formed its own,
/// whose members one that says so would throw out: it is told that its generation is over, and loses nothing.
void membership::adopt(const messages::hello& hello, double now_seconds) {
  if (hello.generation <= state_.generation || (state_.generation > 0 && !state_.adopted))
    return;
  state_.generation = hello.generation;
  state_.placed = hello.members;
  state_.adopted = state_.announced = true;
  if (hello.generation > state_.floor)
    state_.finished_before.reset(); // training has gone on since
  state_.phase = generation_phase::running;
  state_.phase_seconds = state_.formed_seconds = state_.progress_seconds = now_seconds;
  state_.first_steps = state_.attempted_steps = state_.reached = hello.steps;
}

messages::welcome membership::admit(const messages::hello& hello, double now_seconds) {
  auto answer = check(hello, now_seconds);
  if (answer.verdict != welcome_verdict::accepted)
    return answer;
  auto found = std::ranges::find(state_.members, hello.host, &member::host);
  if (found == state_.members.end()) {
    found = state_.members.begin() + *find_place(now_seconds, state_, timeouts_, hello.host).rank;
    *found = {.host = hello.host, .guest = true, .detail = {}};
  }
  found->joins = joins_of(*found, now_seconds) + 1;
  found->joined_seconds = now_seconds;
  highest_term_ = std::max(highest_term_, hello.last_decision.term);
  if (hello.training)
    adopt(hello, now_seconds);
  answer.term = highest_term_;
  answer.generation = state_.generation;
  answer.rank = static_cast<std::uint32_t>(found - state_.members.begin());
  found->seen_seconds = now_seconds;
  if (hello.reserves && !found->present()) {
    found->incarnation = hello.incarnation;
    found->state = member_state::lost;
    found->since_seconds = now_seconds;
    found->detail = "its training process has not come yet";
    return answer;
  }
  // It said so before it heard of its newest place, which it is told again.
  if (!hello.training && found->incarnation == hello.incarnation && is_placed(answer.rank) &&
      hello.generation < state_.generation && hello.steps == found->said_steps) {
    // It may also have left that place meanwhile, with this hello under way; then the notice makes it say so.
    found->told_seconds.reset();
    return answer;
  }
  // Whoever told may be gone before the next generation is formed.
  if (hello.generation >= state_.heard_generation)
    state_.heard_steps =
        std::max(hello.attempted_steps, hello.generation > state_.heard_generation ? 0 : state_.heard_steps);
  state_.heard_generation = std::max(state_.heard_generation, hello.generation);
  const auto wanted = hello.training ? member_state::training : member_state::waiting;
  if (found->state != wanted || found->incarnation != hello.incarnation)
    found->since_seconds = now_seconds;
  // One that trains may say hello again because its connection broke; it has not heard what came in between.
  found->told_seconds.reset();
  found->state = wanted;
  found->incarnation = hello.incarnation;
  found->generation = hello.generation;
  found->group = hello.group;
  found->detail = hello.left_because == state_.reason ? "" : quotable(hello.left_because);
  found->steps = found->said_steps = hello.steps;
  found->checkpoint_steps = hello.checkpoint_steps;
  // What was in flight when an older generation ended has been counted at its end.
  if (hello.generation == state_.generation)
    state_.attempted_steps = std::max(state_.attempted_steps, hello.attempted_steps);
  return answer;
}

std::string membership::why_implausible(const messages::hello& hello) const {
  const auto newest = std::max({state_.generation, state_.floor, state_.heard_generation});
  const auto known = std::max(state_.attempted_steps, state_.heard_steps);
  // How far the generation that it trained in has got, its peers have told.
  const bool trained = state_.generation > 0 && hello.generation > 0;
  if (is_plausible(hello.generation, newest, counter_believed_most) &&
      is_plausible(hello.last_decision.term, highest_term_, counter_believed_most) &&
      is_plausible(hello.attempted_steps, known, trained ? 0 : steps_believed_most) &&
      is_plausible(hello.checkpoint_steps, known, steps_believed_most))
    return "";
  return fmt::format("host {} reports generation {}, term {} and step {}, which is implausible", hello.host,
                     hello.generation, hello.last_decision.term,
                     std::max(hello.attempted_steps, hello.checkpoint_steps));
}

std::string membership::why_implausible(const messages::heartbeat& sign) const {
  if (sign.rank >= state_.members.size())
    return fmt::format("there is no rank {}", sign.rank);
  const auto known = std::max({state_.attempted_steps, state_.heard_steps, state_.members[sign.rank].steps});
  if (sign.steps <= known + counter_ahead_most)
    return "";
  return fmt::format("step {} is too far ahead of step {}", sign.steps, known);
}

bool membership::beat(const messages::heartbeat& sign, double now_seconds) {
  if (!why_implausible(sign).empty())
    return false;
  auto& one = state_.members[sign.rank];
  if (one.incarnation != sign.incarnation)
    return false;
  // One that was given up as silent lives: it is told that its generation has ended, and says hello.
  if (one.state == member_state::lost) {
    one.state = member_state::training;
    one.since_seconds = now_seconds;
    one.told_seconds.reset();
  }
  if (!one.present())
    return false;
  one.seen_seconds = now_seconds;
  if (one.state != member_state::training || sign.generation != state_.generation || !is_member(sign.rank))
    return false;
  // A hello of before its newest place may have come behind it, with a connection that was cut off in between.
  if (std::exchange(one.generation, sign.generation) != sign.generation)
    one.told_seconds.reset();
  if (sign.steps <= one.steps)
    return false;
  const bool first = sign.steps > state_.first_steps && state_.attempted_steps <= state_.first_steps;
  one.steps = sign.steps;
  state_.attempted_steps = std::max(state_.attempted_steps, sign.steps);
  return first;
}

void membership::gone(std::uint32_t rank, member_state how, const std::string& detail, double now_seconds) {
  auto& one = state_.members[rank];
  one.state = how;
  one.detail = detail;
  one.since_seconds = now_seconds;
  if (how != member_state::departed && !has_got_on(state_))
    note_going(now_seconds, timeouts_, one);
  // Its peers may have come out of the generation before, without a word of why.
  if (auto why = why_gone(one);
      state_.unexplained && !why.empty() && is_member(rank) && state_.phase == generation_phase::ending) {
    state_.reason = messages::fit_text(why);
    state_.unexplained = false;
  }
}

bool membership::departed(const messages::farewell& farewell, double now_seconds) {
  if (farewell.rank >= state_.members.size() || !state_.members[farewell.rank].present())
    return false;
  // Over a slow network the farewell of a process may arrive after the hello of the next.
  if (farewell.incarnation != 0 && farewell.incarnation != state_.members[farewell.rank].incarnation)
    return false;
  const auto how = farewell.succeeded                ? member_state::departed
                   : messages::tells_leave(farewell) ? member_state::left
                                                     : member_state::failed;
  state_.members[farewell.rank].said_steps = farewell.steps;
  gone(farewell.rank, how, farewell.reason, now_seconds);
  return true;
}

bool membership::disconnected(std::uint32_t rank, const std::string& detail, double now_seconds) {
  if (rank >= state_.members.size() || !state_.members[rank].present())
    return false;
  gone(rank, member_state::lost, detail, now_seconds);
  return true;
}

std::vector<membership_change> membership::next(double now_seconds) {
  const double interval = timeouts_.beat_interval_ms / 1000.0;
  const double slept = looked_seconds_ < 0 ? 0 : now_seconds - looked_seconds_ - interval;
  looked_seconds_ = now_seconds;
  if (state_.began_seconds < 0)
    state_.began_seconds = now_seconds;
  if (slept > 0) {
    for (auto& one : state_.members)
      one.seen_seconds = std::min(now_seconds, one.seen_seconds + slept);
    state_.progress_seconds = std::min(now_seconds, state_.progress_seconds + slept);
    state_.began_seconds = std::min(now_seconds, state_.began_seconds + slept);
  }
  // One that says alone that it gets on, or too much, must hide neither that the others do not nor that they do.
  if (const auto reached = reached_steps(state_); reached > state_.reached) {
    state_.reached = reached;
    state_.proven = std::max(state_.proven, reached);
    state_.progress_seconds = now_seconds;
  }
  std::vector<membership_change> changes;
  for (int round = 0; round < rounds_most; ++round) {
    auto change = decide(now_seconds, state_, timeouts_);
    if (change.empty())
      break;
    apply(change, now_seconds);
    changes.push_back(std::move(change));
  }
  return changes;
}

void membership::apply(const membership_change& change, double now_seconds) {
  for (const auto& loss : change.lost)
    gone(loss.rank, member_state::lost, loss.detail, now_seconds);
  for (const auto& fault : change.false_completions)
    gone(fault.rank, member_state::failed, fault.detail, now_seconds);
  if (change.placement)
    judge_trial(now_seconds, change);
  for (const auto& [rank, seconds, _] : change.held)
    hold(now_seconds, timeouts_, state_.members[rank], seconds);
  if (change.phase) {
    state_.phase = *change.phase;
    state_.phase_seconds = now_seconds;
    state_.reason = messages::fit_text(change.reason);
    state_.unexplained = change.unexplained;
    state_.nobody_went = change.nobody_went;
    for (const auto rank : state_.placed)
      state_.members[rank].told_seconds.reset();
  }
  for (const auto& [rank, notice] : change.notices)
    state_.members[rank].told_seconds = now_seconds;
  if (!change.placement)
    return;
  state_.generation = change.placement->generation;
  state_.placed = change.placement->members;
  state_.announced = false;
  state_.adopted = false;
  state_.finished_before.reset();
  state_.barren = change.barren;
  if (change.fruitless == 0)
    state_.fruitful_seconds = now_seconds;
  state_.phase = generation_phase::running;
  state_.phase_seconds = state_.formed_seconds = state_.progress_seconds = now_seconds;
  state_.first_steps = state_.attempted_steps = state_.reached = change.steps;
  for (const auto rank : state_.placed) {
    auto& one = state_.members[rank];
    one.state = member_state::training;
    one.since_seconds = now_seconds;
    one.generation = state_.generation;
    one.steps = change.steps;
    one.told_seconds.reset();
  }
}

/// Of the generation before the one that is formed: where it came to nothing, too, it was not for who was left out.
void membership::judge_trial(double now_seconds, const membership_change& change) {
  if (state_.suspect && change.fruitless > state_.fruitless) {
    auto& one = state_.members[*state_.suspect];
    one.held_until_seconds = std::min(one.held_until_seconds, now_seconds);
    one.holds -= one.holds > 0 ? 1 : 0;
  }
  if (change.fruitless == 0)
    for (auto& one : state_.members)
      one.suspected = 0;
  if (change.fruitless != state_.fruitless)
    state_.suspect.reset();
  if (change.tries) {
    state_.suspect = change.held.front().rank;
    ++state_.members[*state_.suspect].suspected;
  }
  state_.fruitless = change.fruitless;
}

bool membership::is_member(std::uint32_t rank) const {
  return std::ranges::binary_search(state_.placed, rank);
}

bool membership::is_placed(std::uint32_t rank) const {
  return is_member(rank) && state_.members[rank].state == member_state::training &&
         state_.members[rank].generation == state_.generation;
}

bool membership::complete() const {
  return std::ranges::none_of(state_.placed, [this](auto rank) { return state_.members[rank].incarnation == 0; });
}

std::string membership::over(double now_seconds) const {
  return why_over(now_seconds, state_, timeouts_);
}

bool membership::ending(double now_seconds) const {
  return count_completion(now_seconds, state_, timeouts_).stands();
}

std::string membership::doubts() const {
  const auto found = count_completion(0, state_, timeouts_); // before anybody's time to come back is over
  return !found.decided && found.open > found.claims ? names(found.away) : "";
}

std::size_t membership::count(member_state state) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(state_.members, [state](const auto& one) { return one.state == state && !one.unused(); }));
}

std::size_t membership::missing() const {
  const auto here = static_cast<std::size_t>(std::ranges::count_if(
      state_.members, [](const auto& one) { return one.state == member_state::waiting && !one.serves; }));
  return state_.generation > 0 || here >= state_.workers_min ? 0 : state_.workers_min - here;
}

std::string membership::names(member_state state) const {
  std::vector<std::string_view> chosen;
  for (const auto& one : state_.members)
    if (one.state == state && !one.unused())
      chosen.push_back(one.host);
  return joined(chosen);
}

std::string membership::names(const std::vector<std::uint32_t>& ranks) const {
  std::vector<std::string_view> chosen;
  for (const auto rank : ranks)
    chosen.push_back(state_.members[rank].host);
  return joined(chosen);
}

} // namespace dynamix::actors
