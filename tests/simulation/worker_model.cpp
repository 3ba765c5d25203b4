#include "tests/simulation/worker_model.hpp"

#include "actors/packing.hpp"
#include "messages/leave.hpp"
#include "tests/simulation/simulation.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace dynamix::simulation {

namespace events = session::events;
namespace effects = session::effects;
using actors::pack;
using actors::unpack;

/// Carries effects out.
struct simulated_worker::performer {
  simulated_worker& worker;
  simulation& world = worker.world_;

  void operator()(const effects::say_hello& what) const {
    const auto& said = what.hello;
    worker.log([&] {
      return fmt::format("says hello, generation {}{}, steps {}, attempted {}, term {}", said.generation,
                         said.training ? " in training" : "", said.steps, said.attempted_steps,
                         said.last_decision.term);
    });
    worker.request(
        [packed = pack(said)](const connection_ptr& link, std::uint64_t ticket) {
          caf::anon_send(link->proxy, atom::hello_v, ticket, packed);
        },
        what.timeout_ms,
        [self = &worker, number = what.number](const answer& heard) {
          std::optional<messages::welcome> welcome;
          if (const auto said = heard.heard ? unpack<messages::welcome>(heard.said, "worker") : nullptr)
            welcome = *said;
          const bool accepted = welcome && welcome->verdict == messages::welcome_verdict::accepted;
          if (accepted && !heard.aggregator)
            welcome.reset();
          if (accepted && welcome->rank != self->rank_)
            self->world_.checks.violated(fmt::format("w{} was given rank {}", self->rank_, welcome->rank));
          self->answering_aggregator_ = heard.aggregator;
          self->happen(events::hello_answered{number, std::move(welcome)});
        });
  }
  void operator()(const effects::greet_later& what) const {
    worker.after(static_cast<std::int64_t>(what.seconds * us_per_second),
                 [self = &worker] { self->happen(events::greeting_due{}); });
  }
  void operator()(const effects::redirect& what) const {
    if (!std::exchange(worker.link_, nullptr))
      return;
    worker.happen(events::disconnected{});
    worker.attempt_later(worker.next_.redirected(what.leader, worker.now_seconds()));
  }
  void operator()(const effects::follow_aggregator&) const { worker.aggregator_ = worker.answering_aggregator_; }
  void operator()(const effects::forget_aggregator&) const { worker.aggregator_ = nullptr; }
  void operator()(const effects::send_report& what) const {
    if (worker.link_)
      world.net.to_server(worker.link_, [aggregator = worker.aggregator_, packed = pack(what.report)] {
        caf::anon_send(aggregator, atom::report_v, packed);
      });
  }
  void operator()(const effects::send_evaluation&) const {}
  void operator()(const effects::send_heartbeat& what) const {
    worker.request([aggregator = worker.aggregator_, packed = pack(what.heartbeat)](
                       const connection_ptr& link,
                       std::uint64_t ticket) { caf::anon_send(link->proxy, atom::beat_v, ticket, aggregator, packed); },
                   what.timeout_ms,
                   [self = &worker, asked = worker.aggregator_, reports = what.reports](const answer& heard) {
                     if (self->aggregator_ == asked)
                       self->happen(events::heartbeat_answered{heard.heard, reports});
                   });
  }
  void operator()(const effects::send_absence&) const {} // it has no external trainer
  void operator()(const effects::settle_aggregator& what) const {
    worker.request(
        [aggregator = worker.aggregator_](const connection_ptr& link, std::uint64_t ticket) {
          caf::anon_send(link->proxy, atom::settle_v, ticket, aggregator);
        },
        what.timeout_ms,
        [self = &worker](const answer& heard) {
          if (heard.heard && self->link_)
            self->link_->parted = true;
          self->happen(events::aggregator_settled{});
        });
  }
  void operator()(const effects::say_farewell& what) const {
    worker.request(
        [aggregator = worker.aggregator_, packed = pack(what.farewell)](const connection_ptr& link,
                                                                        std::uint64_t ticket) {
          caf::anon_send(link->proxy, atom::farewell_v, ticket, aggregator, packed);
        },
        what.timeout_ms,
        [self = &worker](const answer& heard) {
          self->farewell_heard_ = heard.heard;
          self->happen(events::farewell_answered{heard.heard});
        });
  }

  void operator()(const effects::join&) const {}
  void operator()(const effects::enter_generation& what) const {
    worker.away_ = false;
    worker.store_ = worker.offered_store_;
    auto& thread = worker.thread;
    thread.place = world.ring_at(worker.store_, *what.placement);
    thread.interrupted = thread.regroup = thread.entered = false;
    worker.after(world.random.between(100, 30'000), [self = &worker, mine = thread.place] {
      if (self->thread.place == mine)
        mine->enter(*self);
    });
  }
  void operator()(const effects::ask_to_regroup&) const { worker.thread.regroup = true; }
  void operator()(const effects::ask_to_stop&) const {
    world.checks.violated(fmt::format("w{} was asked to end training", worker.rank_));
  }
  void operator()(const effects::interrupt& what) const {
    if (const auto place = worker.thread.place)
      place->interrupt(worker, what.reason);
  }
  void operator()(const effects::finish_training& what) const {
    worker.after(world.random.between(1, 100) * us_per_ms, [self = &worker, reason = what.reason] {
      self->happen(events::generation_left{
          .account = {.reason = reason + "; checkpoint written", .steps = self->thread.state.steps, .decisions = {}}});
    });
  }

  void operator()(const effects::decision_offered& what) const {
    world.checks.offered(worker, what.decision, what.verdict);
  }
  void operator()(const effects::end& what) const { worker.end(what); }
  void operator()(const effects::fail& what) const {
    worker.log([&] { return what.reason; });
    world.restart_worker(worker.rank_, 500 * us_per_ms);
  }
  void operator()(const effects::log& what) const {
    worker.log([&] { return what.text; });
  }
};

void simulated_worker::happen(session::event what) {
  const auto incarnation = incarnation_;
  for (const auto& effect : protocol_->handle({now_seconds(), thread.state.steps}, std::move(what))) {
    if (!alive_ || incarnation != incarnation_)
      return;
    std::visit(performer{*this}, effect);
  }
}

double simulated_worker::now_seconds() const {
  return static_cast<double>(world_.time.now_us()) / us_per_second;
}

const messages::placement& simulated_worker::newest() const {
  static const messages::placement none;
  return protocol_ ? protocol_->newest() : none;
}

void simulated_worker::start(std::uint64_t checkpoint_steps) {
  if (alive_ || finished())
    return;
  incarnation_ = world_.next_incarnation++;
  alive_ = true;
  hung_ = left_ = false;
  link_ = nullptr;
  targets_ = world_.places_for(rank_);
  session::reconnection_options reaching{.hosts = {}};
  for (const auto host : targets_)
    reaching.hosts.push_back(world_.host_name(host));
  if (world_.is_tree() && world_.plan.shard_of(rank_) != 0)
    reaching.first_seconds = world_.timeouts.rejoin_timeout_ms / 1000.0;
  next_ = session::reconnection(std::move(reaching), now_seconds());
  attempt_due_ = false;
  aggregator_ = nullptr;
  checkpoint_steps_ = checkpoint_steps;
  thread = {};
  auto options = session::options_of(*world_.shared_file, world_.digest, world_.name_of(rank_), incarnation_);
  options.identity.checkpoint_steps = checkpoint_steps;
  protocol_.emplace(std::move(options));
  log([&] { return fmt::format("starts, incarnation {}, checkpoint of step {}", incarnation_, checkpoint_steps); });
  if (auto* node = world_.node_at(host_of(rank_)))
    node->start();
  attempt_later(0);
  tick();
}

void simulated_worker::crash() {
  if (!alive_)
    return;
  log([] { return "dies"; });
  alive_ = false;
  deferred_.clear();
  pending_.clear();
  aggregator_ = nullptr;
  link_ = nullptr;
  if (auto* node = world_.node_at(host_of(rank_)))
    node->crash();
  world_.net.host_gone(host_of(rank_));
  if (auto place = std::exchange(thread.place, nullptr); place && thread.entered)
    place->died(rank_);
}

void simulated_worker::hang() {
  if (!alive_ || hung_)
    return;
  log([] { return "is stopped"; });
  hung_ = true;
  world_.net.await_silence(host_of(rank_));
}

void simulated_worker::wake() {
  if (!alive_ || !std::exchange(hung_, false))
    return;
  log([] { return "goes on"; });
  for (auto& action : std::exchange(deferred_, {}))
    run(incarnation_, std::move(action));
  world_.net.settle(host_of(rank_));
  world_.retry_rings();
}

void simulated_worker::ask_to_leave(std::int64_t restart_delay_us) {
  const auto mates = world_.mates(rank_); // which are asked with it
  const auto alone = [&] {
    return std::ranges::none_of(newest().members, [&](auto rank) {
      return std::ranges::find(mates, rank) == mates.end() && !world_.workers[rank]->away_;
    });
  };
  const bool is_there = alive_ && now() >= phase::waiting && now() < phase::leaving;
  if (!is_there || leaves() || away_ || alone())
    return;
  log([] { return "is asked to leave"; });
  away_ = true;
  restart_delay_us_ = restart_delay_us;
  run(incarnation_, [this] {
    if (newest().members.size() > 1)
      happen(events::leave_requested{});
    else
      away_ = false;
  });
}

void simulated_worker::run(std::uint64_t incarnation, std::function<void()> action) {
  if (!alive_ || incarnation != incarnation_)
    return;
  if (hung_)
    deferred_.push_back(std::move(action));
  else
    action();
}

void simulated_worker::after(std::int64_t delay_us, std::function<void()> action) {
  world_.time.after(delay_us, [this, incarnation = incarnation_, action = std::move(action)]() mutable {
    run(incarnation, std::move(action));
  });
}

void simulated_worker::request(const std::function<void(const connection_ptr&, std::uint64_t)>& ask,
                               std::uint32_t timeout_ms, std::function<void(const answer&)> then) {
  const auto ticket = ++tickets_;
  pending_[ticket] = std::move(then);
  after(timeout_ms * us_per_ms, [this, ticket] { answered(ticket, {}); });
  if (link_)
    world_.net.to_server(link_, [ask, link = link_, ticket] { ask(link, ticket); });
}

void simulated_worker::answered(std::uint64_t ticket, const answer& said) {
  if (const auto found = pending_.find(ticket); found != pending_.end()) {
    const auto then = std::move(found->second);
    pending_.erase(found);
    then(said);
  }
}

void simulated_worker::tick() {
  if (const auto* node = world_.node_at(host_of(rank_)); node != nullptr && node->failed())
    return world_.restart_worker(rank_, 500 * us_per_ms); // as systemd does
  after(world_.timeouts.beat_interval_ms * us_per_ms, [this] { tick(); });
  happen(events::tick{});
}

void simulated_worker::take_decision(const message<messages::decision>& received) {
  const auto decision = unpack<messages::decision>(received, "worker");
  if (!decision || protocol_->decisions() == nullptr)
    return world_.checks.violated("a decision reached a worker that was never welcome");
  happen(events::decision_received{*decision});
}

void simulated_worker::take_placement(const message<messages::placement>& received, const meeting_point& where) {
  const auto placement = unpack<messages::placement>(received, "worker");
  if (!placement)
    return world_.checks.violated("a placement reached a worker that is none");
  offered_store_ = where;
  happen(events::placement_received{std::make_shared<const messages::placement>(*placement), where == store_});
}

void simulated_worker::take_notice(const message<messages::generation_notice>& received) {
  const auto notice = unpack<messages::generation_notice>(received, "worker");
  if (!notice)
    return world_.checks.violated("a notice reached a worker that is none");
  happen(events::notice_received{*notice});
}

void simulated_worker::report(const messages::window_report& record) {
  world_.checks.reported(record);
  happen(events::window_completed{record});
}

void simulated_worker::generation_left() {
  log([&] {
    return fmt::format("has left generation {} at step {} of {}: {}", newest().generation, thread.state.steps,
                       thread.attempted_steps, thread.reason);
  });
  happen(events::generation_left{.goes_on = thread.how != thread_ending::completed,
                                 .attempted_steps = thread.attempted_steps,
                                 .account = {.succeeded = thread.how == thread_ending::completed,
                                             .reason = thread.reason,
                                             .steps = thread.state.steps,
                                             .parameter_checksum = thread.state.digest,
                                             .decisions = {}}});
}

/// A host that left is started again, unlike one that has come to the end of training. One that holds an arbitrator
/// stays for those below it: until the run is over, or, where it leaves, for as long as a request may take.
void simulated_worker::end(const session::effects::end& how) {
  log([&] { return fmt::format("ends {}: {}", how.succeeded ? "well" : "in failure", how.reason); });
  const bool left = messages::tells_leave(how.farewell);
  if (!left) {
    finished_ = true;
    succeeded_ = how.succeeded;
    world_.checks.worker_ended(*this, how.succeeded, how.reason);
  }
  const auto* node = world_.node_at(host_of(rank_));
  const auto lingers_us = left && node != nullptr ? world_.timeouts.request_timeout_ms * us_per_ms : 0;
  after(lingers_us + world_.random.between(1, 100) * us_per_ms, [this, left] {
    if (left)
      restart_when_all_left();
    else
      leave_when_over();
  });
}

void simulated_worker::restart_when_all_left() {
  left_ = true;
  const auto mates = world_.mates(rank_);
  if (std::ranges::all_of(mates, [this](auto rank) { return world_.workers[rank]->has_left(); }))
    return world_.restart_worker(rank_, restart_delay_us_);
  after(100 * us_per_ms, [this] { restart_when_all_left(); });
}

void simulated_worker::leave_when_over() {
  const auto* node = world_.node_at(host_of(rank_));
  if (node == nullptr || node->ended())
    return crash();
  after(100 * us_per_ms, [this] { leave_when_over(); });
}

// As actors/network/connector does.

void simulated_worker::attempt_later(double delay_seconds) {
  if (std::exchange(attempt_due_, true))
    return;
  after(static_cast<std::int64_t>(delay_seconds * us_per_second), [this] { attempt(); });
}

void simulated_worker::attempt() {
  attempt_due_ = false;
  if (link_)
    return;
  link_ = world_.net.connect(*this, host_of(rank_), targets_[next_.target()]);
  if (!link_) // nobody is so quick to refuse as a test
    return attempt_later(0.1 + next_.failed(now_seconds()));
  if (!link_->proxy) {
    link_->rank = rank_;
    link_->proxy = spawn_proxy(world_, link_);
  }
  next_.reached();
  // The handshake takes a moment.
  after(world_.random.between(500, 10'000), [this, link = link_] {
    if (link != link_ || !link->client().up)
      return;
    log([&] { return "has connected to " + world_.host_name(link->server().host); });
    happen(events::connected{});
  });
}

void simulated_worker::disconnect() {
  link_ = nullptr;
  happen(events::disconnected{});
  attempt_later(next_.failed(now_seconds()));
}

void simulated_worker::connection_lost(const connection_ptr& one) {
  if (one != link_)
    return;
  log([] { return "its connection breaks"; });
  disconnect();
}

/// DOWN of the gateway or of an aggregator.
void simulated_worker::actor_gone(const connection_ptr& through, const caf::actor_addr& gone) {
  if (aggregator_ && gone == aggregator_.address()) {
    log([] { return "its aggregator is gone"; });
    happen(events::aggregator_down{});
  } else if (through == link_ && gone == through->gateway.address()) {
    log([] { return "the gateway is gone"; });
    disconnect();
  }
}

} // namespace dynamix::simulation
