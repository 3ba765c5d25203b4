#include "tests/simulation/ring.hpp"

#include "cluster/decision_steps.hpp"
#include "tests/simulation/simulation.hpp"

#include <algorithm>

namespace dynamix::simulation {

namespace {

std::uint64_t digest_of(std::uint64_t digest, std::uint64_t what) {
  return random_source(digest * 31 + what).next();
}

} // namespace

simulated_worker& ring::worker(std::uint32_t rank) const {
  return *world_.workers[rank];
}

ring::seat& ring::seat_of(std::uint32_t rank) {
  seats_.resize(place_.members.size());
  return seats_[static_cast<std::size_t>(std::ranges::lower_bound(place_.members, rank) - place_.members.begin())];
}

bool ring::holds(std::uint32_t rank) const {
  const auto& thread = worker(rank).thread;
  return worker(rank).alive() && thread.place.get() == this && thread.entered;
}

void ring::enter(simulated_worker& worker) {
  auto& thread = worker.thread;
  thread.entered = true;
  thread.step_in_flight = false;
  thread.first_step = true;
  if (thread.interrupted)
    return take_leave(worker, thread_ending::lost, "interrupted");
  if (failed_)
    return peer_lost(worker.rank());
  seat_of(worker.rank()) = {.incarnation = worker.incarnation(), .here = true};
  if (!std::ranges::all_of(seats_, [](const seat& one) { return one.here; }))
    return;
  world_.time.after(world_.random.between(5, 150) * us_per_ms, [self = shared_from_this()] { self->start(); });
}

/// All have come; they connect to each other through the store, and take the source's state.
void ring::start() {
  if (failed_ || training_)
    return;
  if (held_up()) {
    waits_ = true;
    return;
  }
  if (world_.host.aggregator_life() != where_.aggregator_life || !world_.host.alive()) {
    failed_ = true;
    for (const auto rank : place_.members)
      peer_lost(rank);
    return;
  }
  training_ = true;
  auto& source = worker(place_.source);
  if (!source.thread.state.known)
    source.thread.state = world_.load_checkpoint(source);
  source.thread.state.known = true;
  const auto state = source.thread.state;
  step_ = state.steps;
  world_.checks.training_started(*this, state);
  for (const auto rank : place_.members) {
    auto& thread = worker(rank).thread;
    thread.state = state;
    thread.in_force = {};
    thread.batch = std::max(thread.batch, world_.file.batch.initial);
    thread.first_step_of_window = state.steps;
  }
  for (const auto rank : place_.members) {
    auto& one = worker(rank);
    if (state.steps >= world_.total_steps)
      take_leave(one, thread_ending::completed, "epochs completed");
    else
      begin_step(one);
  }
}

void ring::begin_step(simulated_worker& worker) {
  if (!holds(worker.rank()))
    return;
  auto& thread = worker.thread;
  if (thread.interrupted)
    return; // about to leave
  thread.step_in_flight = true;
  world_.checks.step_attempted(thread.state.steps + 1);
  thread.brought = worker.slot().held();
  auto& seat = seat_of(worker.rank());
  if (!std::exchange(seat.begun, true))
    ++begun_;
  if (begun_ < place_.members.size())
    return;
  world_.time.after(world_.random.between(30, 120) * us_per_ms,
                    [self = shared_from_this()] { self->complete_step_together(); });
}

bool ring::held_up() const {
  for (const auto rank : place_.members) {
    if (worker(rank).hung())
      return true;
    for (const auto other : place_.members)
      if (world_.peers_cut(rank, other))
        return true;
  }
  return false;
}

void ring::retry() {
  if (!std::exchange(waits_, false))
    return;
  world_.time.after(us_per_ms, [self = shared_from_this()] {
    if (self->training_)
      self->complete_step_together();
    else
      self->start();
  });
}

/// The gradients have been exchanged: from here on each completes the step by itself.
void ring::complete_step_together() {
  if (failed_ || !std::ranges::all_of(place_.members, [this](auto rank) { return holds(rank); }))
    return;
  if (held_up()) {
    waits_ = true;
    return;
  }
  std::vector<session::step_row> rows;
  ++step_;
  begun_ = 0;
  for (const auto rank : place_.members) {
    seat_of(rank).begun = false;
    const auto& thread = worker(rank).thread;
    rows.push_back({.held = thread.brought,
                    .request = thread.regroup ? session::step_request::regroup : session::step_request::none});
  }
  for (const auto rank : place_.members) {
    auto& one = worker(rank);
    one.after(world_.random.between(0, 3000), [self = shared_from_this(), &one, rows] {
      if (self->holds(one.rank()))
        self->complete_step(one, rows);
    });
  }
}

void ring::complete_step(simulated_worker& worker, const std::vector<session::step_row>& rows) {
  auto& thread = worker.thread;
  auto& state = thread.state;
  ++state.steps;
  state.digest = digest_of(state.digest, state.steps);
  thread.step_in_flight = false;
  world_.checks.step_completed(*this, worker);
  if (std::exchange(thread.first_step, false))
    worker.training_began();
  const auto agreed = session::agree(rows, state.last_applied, state.steps);
  const bool final = state.steps >= world_.total_steps;
  const auto window_steps = world_.file.arbitrator.window_steps;
  if (state.steps % window_steps == 0 || final)
    close_window(worker, final);
  if (agreed.key && !final) {
    const auto position = std::ranges::lower_bound(place_.members, worker.rank()) - place_.members.begin();
    const auto& mine = agreed.decisions[static_cast<std::size_t>(position)];
    world_.checks.applied(*this, worker, mine);
    state.last_applied = thread.in_force = *agreed.key;
    state.digest = digest_of(state.digest, agreed.key->term << 32 | agreed.key->window);
    thread.batch = mine.batch;
    worker.slot().applied(mine, state.steps);
  }
  if (state.steps % world_.checkpoint_interval == 0 || final)
    world_.write_checkpoint(state);
  if (final)
    return take_leave(worker, thread_ending::completed, "epochs completed");
  if (agreed.request == session::step_request::regroup)
    return take_leave(worker, thread_ending::regrouped, "regrouping");
  // Now and then something lies between two steps: an evaluation, a checkpoint.
  if (!world_.random.chance(0.1))
    return begin_step(worker);
  worker.after(world_.random.between(0, 60'000), [self = shared_from_this(), &worker] { self->begin_step(worker); });
}

void ring::close_window(simulated_worker& worker, bool final) {
  auto& thread = worker.thread;
  const auto window_steps = world_.file.arbitrator.window_steps;
  messages::window_report record{.host = world_.name_of(worker.rank()),
                                 .rank = worker.rank(),
                                 .generation = place_.generation,
                                 .window = (thread.state.steps - 1) / window_steps + 1,
                                 .first_step = thread.first_step_of_window,
                                 .final = final,
                                 .batch = thread.batch,
                                 .decision = thread.in_force,
                                 .global_batch = thread.batch * place_.members.size()};
  record.training.steps = static_cast<std::uint32_t>(thread.state.steps - thread.first_step_of_window);
  record.training.samples = std::uint64_t{thread.batch} * record.training.steps;
  record.training.accuracy = 0.5;
  record.training.iteration_seconds = 0.01 * (worker.rank() + 1);
  record.training.compute_seconds = 0.01;
  record.training.learning_rate = 0.1;
  thread.first_step_of_window = thread.state.steps;
  worker.report(record);
}

void ring::interrupt(simulated_worker& worker, const std::string& reason) {
  auto& thread = worker.thread;
  if (std::exchange(thread.interrupted, true) || !thread.entered)
    return;
  worker.after(world_.random.between(0, 30'000), [self = shared_from_this(), &worker, reason] {
    if (self->holds(worker.rank()))
      self->take_leave(worker, thread_ending::lost, reason);
  });
}

void ring::take_leave(simulated_worker& worker, thread_ending how, const std::string& reason) {
  auto& thread = worker.thread;
  thread.place = nullptr;
  thread.entered = false;
  thread.how = how;
  thread.reason = reason;
  thread.attempted_steps = thread.state.steps + (thread.step_in_flight ? 1 : 0);
  worker.after(world_.random.between(0, 2000), [&worker] { worker.generation_left(); });
  if (how == thread_ending::lost)
    died(worker.rank());
}

void ring::died(std::uint32_t gone) {
  failed_ = true;
  for (const auto rank : place_.members)
    if (rank != gone && holds(rank))
      peer_lost(rank);
}

void ring::peer_lost(std::uint32_t rank) {
  auto& one = worker(rank);
  one.after(world_.random.between(1000, 100'000), [self = shared_from_this(), &one] {
    if (self->holds(one.rank()))
      self->take_leave(one, thread_ending::lost, "lost contact with a worker");
  });
}

} // namespace dynamix::simulation
