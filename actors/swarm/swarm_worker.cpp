#include "actors/swarm/swarm_worker.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace dynamix::actors {

std::shared_ptr<const messages::placement> swarm_group::share(messages::placement placement) {
  const std::scoped_lock lock(mutex_);
  if (!newest_ || *newest_ != placement)
    newest_ = std::make_shared<const messages::placement>(std::move(placement));
  return newest_;
}

namespace {

using swarm_worker_pointer = swarm_worker_actor::stateful_pointer<swarm_worker_state>;
using phase = session::worker_protocol::phase;

void report_open(swarm_worker_pointer self);
void leave_generation(swarm_worker_pointer self);
void apply(swarm_worker_pointer self, const messages::decision& decision);

struct swarm_performer : protocol_performer<swarm_performer, swarm_worker_pointer> {
  using protocol_performer::operator();

  std::uint64_t steps() const { return self->state.steps; }
  void sent() const { ++self->state.group->sent; }
  void received() const { ++self->state.group->received; }

  void operator()(const effects::say_hello& what) const {
    ++self->state.group->hellos;
    protocol_performer::operator()(what);
  }
  void operator()(const effects::redirect& what) const {
    self->send(self->state.relay, atom::redirect_v, self->state.gateway, what.leader);
  }
  void operator()(const effects::send_report& what) const {
    self->send(self->state.aggregator, atom::report_v,
               self->state.open == what.report ? self->state.packed : pack(what.report));
    sent();
    self->state.group->events.sent(self->state.rank);
  }
  void operator()(const effects::send_evaluation&) const {}
  void operator()(const effects::send_absence&) const {} // it has no external trainer
  void operator()(const effects::join&) const {}
  void operator()(const effects::enter_generation&) const {
    self->state.store = self->state.offered_store;
    ++self->state.group->generations;
    self->state.group->events.placed(self->state.rank);
    report_open(self); // what the generation before left undecided
  }
  void operator()(const effects::ask_to_regroup&) const { leave_generation(self); }
  void operator()(const effects::interrupt&) const { leave_generation(self); }
  void operator()(const effects::ask_to_stop&) const {}
  void operator()(const effects::finish_training&) const {}

  void operator()(const effects::decision_offered& what) const {
    if (what.verdict == session::offer_verdict::accepted)
      apply(self, what.decision);
    else
      ++self->state.group->refused;
  }
  void operator()(const effects::end& what) const {
    if (!what.succeeded && !self->state.finished)
      self->state.group->events.failed(what.reason);
    self->state.group->events.left(self->state.rank);
  }
  void operator()(const effects::fail& what) const { self->state.group->events.failed(what.reason); }
  /// As thousands of workers share one log, only what is wrong.
  void operator()(const effects::log& what) const {
    if (what.level == effects::log_level::error)
      spdlog::error("rank={} {}", self->state.rank, what.text);
  }
};

void apply(swarm_worker_pointer self, const messages::decision& decision) {
  auto& state = self->state;
  state.protocol->decisions()->applied(decision, decision.first_step);
  state.in_force = decision.key;
  if (state.open && state.open->window <= decision.key.window)
    state.open.reset();
  ++state.group->applied;
  state.group->events.applied(decision);
}

void leave_generation(swarm_worker_pointer self) {
  const auto steps = self->state.steps;
  happen<swarm_performer>(
      self, events::generation_left{.goes_on = true,
                                    .attempted_steps = steps,
                                    .account = {.reason = "the generation is over", .steps = steps, .decisions = {}}});
}

/// The report as this generation has it, ready to go out.
void pack_open(swarm_worker_state& state) {
  state.open->generation = state.protocol->newest().generation;
  state.open->decision = state.in_force;
  state.packed = pack(*state.open);
  state.packed.encoded(); // now, so that what is measured from the window's end on does not include it
}

void report_open(swarm_worker_pointer self) {
  auto& state = self->state;
  if (!state.open || !state.window_ended || state.protocol->now() != phase::training)
    return;
  if (state.open->generation != state.protocol->newest().generation)
    pack_open(state);
  happen<swarm_performer>(self, events::window_completed{*state.open});
}

void prepare(swarm_worker_state& state, std::uint32_t index) {
  state.open = state.group->reports[index];
  state.steps = state.open->first_step + state.open->training.steps;
  state.window_ended = false;
  pack_open(state);
}

void tick(swarm_worker_pointer self) {
  auto& state = self->state;
  if (state.protocol->now() != phase::ended)
    self->delayed_send(self, std::chrono::milliseconds(state.group->timeouts.beat_interval_ms), atom::tick_v);
  happen<swarm_performer>(self, events::tick{});
}

void finish(swarm_worker_pointer self) {
  auto& state = self->state;
  state.finished = true;
  if (state.protocol->decisions() == nullptr)
    return happen<swarm_performer>(self, events::stop_requested{});
  happen<swarm_performer>(self, events::generation_left{.account = {.succeeded = true,
                                                                    .reason = "the swarm's windows are done",
                                                                    .steps = state.steps,
                                                                    .decisions = {}}});
}

} // namespace

swarm_worker_actor::behavior_type swarm_worker(swarm_worker_pointer self, std::shared_ptr<swarm_group> group,
                                               swarm_relay_actor relay, std::uint32_t rank, std::uint64_t incarnation) {
  install_handlers(self, swarm_worker_state::name);
  auto& state = self->state;
  state.group = std::move(group);
  state.relay = std::move(relay);
  state.rank = rank;
  const auto& file = *state.group->file;
  state.protocol.emplace(session::options_of(file, state.group->digest, file.workers()[rank]->name, incarnation));
  watch_aggregator<swarm_performer>(self);
  // Hosts do not beat in step.
  const auto offset = std::uint64_t{rank} * 7919 % state.group->timeouts.beat_interval_ms;
  self->delayed_send(self, std::chrono::milliseconds(offset), atom::tick_v);
  return {
      [self](atom::decide, const message<messages::decision>& decision) {
        receive<swarm_performer, events::decision_received>(self, decision);
      },
      [self](atom::place, const message<messages::placement>& place, const store_actor& store) {
        take_placement<swarm_performer>(
            self, place, store, [self](const messages::placement& taken) { return self->state.group->share(taken); });
      },
      [self](atom::closed, const message<messages::generation_notice>& notice) {
        receive<swarm_performer, events::notice_received>(self, notice);
      },
      [self](atom::connected, gateway_actor gateway) {
        self->state.gateway = std::move(gateway);
        happen<swarm_performer>(self, events::connected{});
      },
      [self](atom::lost) {
        self->state.gateway = nullptr;
        happen<swarm_performer>(self, events::disconnected{});
      },
      [self](atom::greet) { happen<swarm_performer>(self, events::greeting_due{}); },
      [self](atom::tick) { tick(self); },
      [self](atom::report, std::uint32_t index) { prepare(self->state, index); },
      [self](atom::report) {
        self->state.window_ended = true;
        report_open(self);
      },
      [self](atom::stop) { finish(self); },
  };
}

} // namespace dynamix::actors
