#include "actors/aggregator_members.hpp"

#include "actors/aggregator_tree.hpp"
#include "actors/gateway.hpp"
#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "actors/run_outcome.hpp"
#include "messages/leave.hpp"
#include "telemetry/logging.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace dynamix::actors::aggregating {

const std::string& host_of(pointer self, std::uint32_t rank) {
  return self->state.members->state().members[rank].host;
}

std::uint64_t window_after(pointer self, std::uint64_t steps) {
  return steps / self->state.options.file.arbitrator.window_steps + 1;
}

namespace {

void send_place(pointer self, std::uint32_t rank) {
  const auto& state = self->state;
  if (state.options.tree())
    return place_through_children(self, {rank});
  if (const auto found = state.workers.find(rank); found != state.workers.end())
    self->send(found->second, atom::place_v, pack(state.newest), state.store);
}

/// A loss is told once, whether the membership or a broken connection shows it.
void tell_loss(pointer self, std::uint32_t rank, const std::string& detail) {
  auto& state = self->state;
  const auto& host = host_of(self, rank);
  spdlog::error("worker_lost host={} rank={} reason=\"{}\"", host, rank, detail);
  write_row(self, ledger::event{"lost", host, detail});
  if (state.windows)
    pass_on(self, state.windows->left(rank, seconds_now(self)));
  if (state.arbitrator)
    self->send(state.arbitrator, atom::lost_v, rank);
}

/// Does it once the journal keeps it, never if it does not.
void keep(pointer self, journal_content content, std::function<void()> action) {
  auto& state = self->state;
  state.kept.keep(state.options.journal.get(), state.term, std::move(content), std::move(action),
                  [handle = aggregator_local{self}](std::uint64_t token, bool kept) {
                    caf::anon_send(handle, atom::kept_v, token, kept);
                  });
}

replication::generation_formed entry_of(pointer self, const membership_change& change) {
  const auto& state = self->state;
  replication::generation_formed formed{.generation = change.placement->generation,
                                        .members = {},
                                        .source = change.placement->source,
                                        .next_window = window_after(self, change.steps)};
  for (const auto rank : change.placement->members)
    formed.members.push_back({.rank = rank, .incarnation = state.members->state().members[rank].incarnation});
  return formed;
}

void announce(pointer self, const membership_change& change, const std::string& reason) {
  auto& state = self->state;
  state.newest = *change.placement;
  // A table of its own for each generation: nothing of the one before can be met in it.
  // Members of the generation before may still be asking the one before.
  if (state.store_before)
    self->send_exit(state.store_before, caf::exit_reason::user_shutdown);
  state.store_before = std::exchange(state.store, self->system().spawn(store, state.newest.members.size()));
  state.windows.emplace(state.newest.generation, window_after(self, change.steps));
  std::vector<std::string> hosts;
  std::vector<std::uint32_t> placed;
  for (const auto rank : state.newest.members) {
    hosts.push_back(host_of(self, rank));
    // Who was lost since and is back as another process waits for the next one.
    if (state.members->is_placed(rank))
      placed.push_back(rank);
  }
  for (const auto rank : placed) {
    state.windows->joined(rank);
    if (!state.options.tree())
      send_place(self, rank);
  }
  if (state.options.tree())
    place_through_children(self, placed);
  state.members->announced();
  self->send(self, atom::look_v); // what became of it meanwhile is told behind the places
  const auto& source = host_of(self, state.newest.source);
  dynamix::telemetry::set_log_generation(state.newest.generation);
  spdlog::info("generation_formed generation={} members={} source={} steps={} steps_lost={}", state.newest.generation,
               state.members->names(state.newest.members), source, change.steps, change.steps_lost);
  write_row(self, ledger::generation{.generation = state.newest.generation,
                                     .members = std::move(hosts),
                                     .source = source,
                                     .reason = reason,
                                     .steps = change.steps,
                                     .steps_lost = change.steps_lost});
}

void begin_generation(pointer self, const membership_change& change) {
  auto& state = self->state;
  // What was decided on a window that is trained again must not be taken for what is decided now.
  ++state.terms;
  raise_term(self);
  keep(self, entry_of(self, change),
       [self, change, reason = state.members->state().reason] { announce(self, change, reason); });
}

void carry_out(pointer self, const membership_change& change) {
  auto& state = self->state;
  for (const auto& loss : change.lost)
    tell_loss(self, loss.rank, loss.detail);
  if (change.phase) {
    const bool ending = *change.phase == generation_phase::ending;
    spdlog::warn("generation_{} generation={} reason=\"{}\"", ending ? "ends" : "regroups", state.members->generation(),
                 change.reason);
    write_row(self, ledger::event{ending ? "ending" : "regrouping", "",
                                  fmt::format("generation {}: {}", state.members->generation(), change.reason)});
  }
  if (state.options.tree())
    notify_through_children(self, change.notices);
  for (const auto& [rank, notice] : change.notices)
    if (const auto found = state.workers.find(rank); found != state.workers.end())
      self->send(found->second, atom::closed_v, pack(notice));
  if (change.placement)
    begin_generation(self, change);
}

/// The run is over when the last worker has gone; the arbitrator then finishes what it was sent.
void look_whether_over(pointer self) {
  auto& state = self->state;
  const bool nobody_here = state.options.tree() ? state.routes.empty() : state.workers.empty();
  auto why = state.members->over(seconds_now(self));
  if (why.empty() && state.stop_requested && nobody_here)
    why = "a stop was asked for, and nobody is here";
  if (state.ended || why.empty())
    return;
  state.ended = true;
  spdlog::info("run_over reason=\"{}\"", why);
  auto report = [self, outcome = judge_run(*state.members, state.farewells, state.stop_requested, why)] {
    finish_children(self, outcome);
    self->state.options.events->arbitrator_ended(outcome, self->state.farewells);
  };
  if (!state.arbitrator)
    return report();
  if (state.windows) // the last one may wait for who never came to this arbitrator
    pass_on(self, state.windows->deadline(state.windows->open_window(), seconds_now(self)));
  const std::chrono::milliseconds patience(state.options.timeouts.shutdown_timeout_ms);
  self->request(state.arbitrator, patience, atom::finish_v)
      .then([report](atom::finish) { report(); }, [report](const caf::error&) { report(); });
}

} // namespace

std::optional<std::uint32_t> finished_before(const aggregator_options& options) {
  const auto& before = options.before;
  const bool known = before && before->end.generation > 0 && before->end.cluster_digest == options.file.digest() &&
                     before->end.rank < options.file.workers().size();
  return known ? std::optional(before->end.rank) : std::nullopt;
}

void write_row(pointer self, ledger::entry entry) {
  auto& options = self->state.options;
  options.run_ledger->append(
      {.at_seconds = seconds_now(self) - options.ledger_origin_seconds, .entry = std::move(entry)});
}

void pass_on(pointer self, const std::vector<closed_window>& closed) {
  const auto& state = self->state;
  // Who trains and has not come to this arbitrator yet may have obeyed a newer term than all that have.
  const bool too_early = !state.options.tree() && !state.members->complete();
  for (const auto& shard : closed) {
    const bool decides = std::ranges::none_of(shard.reports, &messages::window_report::final);
    if (!state.arbitrator || shard.reports.empty() || (too_early && decides))
      continue;
    if (!state.options.tree())
      self->send(state.arbitrator, atom::shard_v, pack(static_cast<const messages::shard_report&>(shard)));
    else if (shard.choices.size() == shard.reports.size())
      self->send(state.arbitrator, atom::window_v, pack(shard.joined()));
  }
}

void raise_term(pointer self) {
  auto& state = self->state;
  const auto kept = state.options.before ? state.options.before->term : 0;
  const auto term = std::max(state.members->highest_term(), kept) + state.terms;
  if (term <= state.term)
    return;
  state.term = term;
  keep(self, replication::term_begun{.leader = state.options.voter}, [self, term] {
    if (self->state.arbitrator)
      self->send(self->state.arbitrator, atom::term_v, term);
    tell_term(self);
  });
}

void take_sign(pointer self, const messages::heartbeat& sign) {
  auto& state = self->state;
  if (const auto why = state.members->why_implausible(sign); !why.empty())
    return spdlog::warn("heartbeat_refused rank={} error=\"{}\"", sign.rank, why);
  if (state.windows && sign.generation == state.windows->generation())
    state.windows->reached(window_after(self, sign.steps));
  if (!state.members->beat(sign, seconds_now(self)))
    return;
  write_row(self, ledger::event{"resumed", host_of(self, sign.rank),
                                fmt::format("generation {} has completed step {}", sign.generation, sign.steps)});
}

void take_beat(pointer self, const message<messages::heartbeat>& received) {
  if (const auto sign = unpack<messages::heartbeat>(received, "aggregator"))
    take_sign(self, *sign);
}

void lose_worker(pointer self, std::uint32_t rank, const std::string& detail) {
  if (self->state.members->disconnected(rank, detail, seconds_now(self)))
    tell_loss(self, rank, detail);
  look_after_members(self);
}

caf::result<atom::farewell> take_farewell(pointer self, const message<messages::farewell>& received) {
  auto& state = self->state;
  const auto farewell = unpack<messages::farewell>(received, "aggregator");
  if (!farewell)
    return caf::sec::invalid_argument;
  if (!state.members->departed(*farewell, seconds_now(self)))
    return atom::farewell_v;
  std::erase_if(state.farewells, [&](const auto& said) { return said.rank == farewell->rank; }); // of an earlier life
  // Should this leader die now, another must not wait for workers that have all ended.
  if (messages::tells_completion(*farewell) && !std::ranges::any_of(state.farewells, messages::tells_completion))
    keep(self,
         replication::training_ended{.generation = state.members->generation(),
                                     .rank = farewell->rank,
                                     .cluster_digest = state.options.file.digest()},
         [] {});
  state.farewells.push_back(*farewell);
  write_row(self, ledger::farewell{*farewell});
  state.workers.erase(farewell->rank);
  state.routes.erase(farewell->rank);
  if (state.windows)
    pass_on(self, farewell->succeeded ? state.windows->finished(farewell->rank, seconds_now(self))
                                      : state.windows->left(farewell->rank, seconds_now(self)));
  if (state.arbitrator)
    self->send(state.arbitrator, atom::lost_v, farewell->rank);
  self->send(self, atom::look_v); // behind the answer, after which this host may end
  return atom::farewell_v;
}

void stop(pointer self) {
  self->state.stop_requested = true;
  for (const auto& [rank, worker] : self->state.workers)
    self->send(worker, atom::stop_v);
  stop_children(self);
  look_after_members(self);
}

void worker_down(pointer self, const caf::down_msg& down) {
  auto& state = self->state;
  if (state.options.tree())
    return child_down(self, down);
  const auto found =
      std::ranges::find_if(state.workers, [&](const auto& entry) { return entry.second.address() == down.source; });
  if (found == state.workers.end())
    return;
  const auto rank = found->first;
  state.workers.erase(found);
  lose_worker(self, rank, "the connection to it broke");
}

void look_after_members(pointer self) {
  look_after_children(self);
  for (const auto rank : std::exchange(self->state.unsure, {}))
    if (self->state.members->state().announced)
      send_place(self, rank);
  for (const auto& change : self->state.members->next(seconds_now(self)))
    carry_out(self, change);
  look_whether_over(self);
}

} // namespace dynamix::actors::aggregating
