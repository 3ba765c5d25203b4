#include "tests/simulation/arbitrator_side.hpp"

#include "actors/packing.hpp"
#include "ledger/file.hpp"
#include "replication/journal_codec.hpp"
#include "tests/simulation/simulation.hpp"

#include <algorithm>

namespace dynamix::simulation {

namespace {

constexpr std::int64_t poll_interval_us = 100 * us_per_ms;

/// Hands every row to the checks, as long as the process that writes it lives.
class watched_ledger final : public ledger::writer {
public:
  explicit watched_ledger(simulation& world) : world_(world), life_(world.host.life()) {}
  void append(const ledger::row& row) override {
    if (world_.host.life() == life_ && world_.host.alive())
      world_.checks.row_written(row);
  }

private:
  simulation& world_;
  std::uint64_t life_;
};

/// One life's client of what a majority keeps; it is kept at once.
class kept_journal final : public actors::decision_journal {
public:
  explicit kept_journal(simulation& world) : world_(world), life_(world.host.life()) {}
  void keep(std::uint64_t term, actors::journal_content content, std::function<void(bool kept)> done) override {
    if (world_.host.life() == life_ && world_.host.alive())
      world_.host.commit({{life_, ++sequence_}, term, std::move(content)}, done);
  }

private:
  simulation& world_;
  std::uint64_t life_;
  std::uint64_t sequence_ = 0;
};

struct proxy_state {
  static constexpr const char* name = "proxy";
  proxy_state() = default;
};
using proxy_pointer = proxy_actor::stateful_pointer<proxy_state>;

void answer_worker(simulation& world, const connection_ptr& through, std::uint64_t ticket, answer said) {
  world.net.to_client(through, [&world, through, ticket, said = std::move(said)] {
    world.workers[through->rank]->answered(ticket, said);
  });
}

proxy_actor::behavior_type proxy(proxy_pointer self, simulation* world, connection_ptr through) {
  self->set_down_handler([self, world, through](const caf::down_msg& down) {
    world->net.to_client(through, [through, gone = down.source] { through->owner->actor_gone(through, gone); });
  });
  self->monitor(through->gateway);
  const auto to_worker = [world, through](auto action) {
    world->net.to_client(through,
                         [world, through, action = std::move(action)] { action(*world->workers[through->rank]); });
  };
  const auto failed = [world, through](std::uint64_t ticket) {
    return [world, through, ticket](const caf::error&) { answer_worker(*world, through, ticket, {}); };
  };
  return {
      [to_worker](atom::decide, const message<messages::decision>& decision) {
        to_worker([decision](simulated_worker& worker) { worker.take_decision(decision); });
      },
      [to_worker, world](atom::place, const message<messages::placement>& place, const actors::store_actor& store) {
        const meeting_point where{store.id(), world->host.aggregator_life_of(store.id())};
        to_worker([place, where](simulated_worker& worker) { worker.take_placement(place, where); });
      },
      [to_worker](atom::closed, const message<messages::generation_notice>& notice) {
        to_worker([notice](simulated_worker& worker) { worker.take_notice(notice); });
      },
      [](atom::stop) {}, // nobody asks the arbitrator's host to end
      [self, world, through, failed](atom::hello, std::uint64_t ticket, const message<messages::hello>& hello) {
        world->faults.notice(fault_trigger::hello);
        if (through->server().host == root_host)
          world->checks.asked(*actors::unpack<messages::hello>(hello, "proxy"), through);
        self->request(through->gateway, caf::infinite, atom::hello_v, hello, actors::worker_actor{self})
            .then(
                [self, world, through, ticket](const message<messages::welcome>& welcome,
                                               const actors::aggregator_actor& aggregator) {
                  if (aggregator)
                    self->monitor(aggregator);
                  answer_worker(*world, through, ticket, {true, welcome, aggregator});
                },
                failed(ticket));
      },
      [self, world, through, failed](atom::beat, std::uint64_t ticket, const actors::aggregator_actor& aggregator,
                                     const message<messages::heartbeat>& sign) {
        self->request(aggregator, caf::infinite, atom::beat_v, sign)
            .then(
                [world, through, ticket](atom::beat) {
                  answer_worker(*world, through, ticket, {true, {}, {}});
                },
                failed(ticket));
      },
      [self, world, through, failed](atom::settle, std::uint64_t ticket, const actors::aggregator_actor& aggregator) {
        self->request(aggregator, caf::infinite, atom::settle_v)
            .then(
                [world, through, ticket](atom::settle) {
                  answer_worker(*world, through, ticket, {true, {}, {}});
                },
                failed(ticket));
      },
      [self, world, through, failed](atom::farewell, std::uint64_t ticket, const actors::aggregator_actor& aggregator,
                                     const message<messages::farewell>& said) {
        self->request(aggregator, caf::infinite, atom::farewell_v, said)
            .then(
                [world, through, ticket](atom::farewell) {
                  answer_worker(*world, through, ticket, {true, {}, {}});
                },
                failed(ticket));
      },
      [self](atom::connected, const actors::gateway_actor& gateway) { self->monitor(gateway); },
  };
}

} // namespace

proxy_actor spawn_proxy(simulation& world, const connection_ptr& through) {
  return shared_actor_system().spawn(proxy, &world, through);
}

arbitrator_host::~arbitrator_host() {
  alive_ = false;
  ++life_;
  end_actors();
}

void arbitrator_host::end_actors() {
  for (auto supervisor = supervisors_.rbegin(); supervisor != supervisors_.rend(); ++supervisor)
    caf::anon_send_exit(*supervisor, caf::exit_reason::kill);
  supervisors_.clear();
  for (const auto& one : {caf::actor_cast<caf::actor>(std::exchange(judge_, nullptr)),
                          caf::actor_cast<caf::actor>(std::exchange(aggregator_, nullptr)),
                          caf::actor_cast<caf::actor>(std::exchange(gateway_, nullptr))})
    if (one)
      caf::anon_send_exit(one, caf::exit_reason::kill);
}

void arbitrator_host::start() {
  if (alive_ || ended_)
    return;
  ++life_;
  alive_ = true;
  world_.log([&] { return fmt::format("host: starts, life {}", life_); });
  events_ = std::make_shared<actors::host_events>();
  ledger_ = std::make_shared<watched_ledger>(world_);
  if (replicated_) {
    journal_ = std::make_shared<kept_journal>(world_);
    before_ = std::make_shared<replication::journal_state>(kept_.state());
  }
  start_trees();
  if (world_.is_tree())
    world_.nodes[0]->start();
  poll();
}

void arbitrator_host::start_trees() {
  auto& system = shared_actor_system();
  const auto options = [this](actors::supervision_strategy strategy) {
    return actors::supervision_options{.strategy = strategy, .seed = world_.file.seed + supervisors_.size()};
  };
  const auto told = [this, ledger = ledger_](const std::string& reason) {
    ledger->append({.entry = ledger::event{ledger::event_kind::restarted, "", reason}});
  };
  std::vector<actors::child_specification> aggregator;
  aggregator.push_back({"aggregator", [this] { return start_aggregator(); }});
  aggregator.push_back({"arbitrator", [this] { return start_arbitrator(); }});
  supervisors_.push_back(system.spawn(actors::supervisor, options(actors::supervision_strategy::rest_for_one),
                                      std::move(aggregator), events_, told));
  std::vector<actors::child_specification> door;
  door.push_back({"gateway", [this] { return start_gateway(); }});
  supervisors_.push_back(system.spawn(actors::supervisor, options(actors::supervision_strategy::one_for_one),
                                      std::move(door), events_, told));
}

caf::strong_actor_ptr arbitrator_host::start_gateway() {
  gateway_ = shared_actor_system().spawn(actors::gateway, actors::gateway_options{"north", true, world_.is_tree()},
                                         std::shared_ptr<actors::host_events>{});
  tell_gateway();
  gateway_stands_ = true;
  return caf::actor_cast<caf::strong_actor_ptr>(gateway_);
}

std::uint64_t arbitrator_host::aggregator_life_of(caf::actor_id spawned) const {
  return static_cast<std::uint64_t>(std::ranges::lower_bound(aggregators_, spawned) - aggregators_.begin());
}

void arbitrator_host::tell_gateway() {
  if (!gateway_)
    return;
  if (aggregator_ && !world_.is_tree())
    caf::anon_send(gateway_, atom::serve_v, caf::actor_cast<actors::greeter_actor>(aggregator_));
  if (aggregator_ && world_.is_tree())
    caf::anon_send(gateway_, atom::serve_v, caf::actor_cast<actors::attacher_actor>(aggregator_));
  if (world_.is_tree())
    world_.nodes[0]->serve(gateway_);
}

caf::strong_actor_ptr arbitrator_host::start_aggregator() {
  world_.checks.aggregator_started();
  actors::root_options role{.host = {},
                            .run_ledger = ledger_,
                            .events = events_,
                            .journal = journal_,
                            .before = before_,
                            .names = world_.names,
                            .plan = world_.plan,
                            .layout = layout_,
                            .write_layout = [this](const actors::shard_layout& layout) {
                              layout_ = layout;
                              return std::string();
                            }};
  aggregator_ = shared_actor_system().spawn(
      actors::aggregator,
      actors::aggregator_options{.file = world_.shared_file, .timeouts = world_.timeouts, .role = std::move(role)});
  aggregators_.push_back(aggregator_.id());
  tell_gateway();
  return caf::actor_cast<caf::strong_actor_ptr>(aggregator_);
}

caf::strong_actor_ptr arbitrator_host::start_arbitrator() {
  judge_ =
      shared_actor_system().spawn(actors::arbitrator,
                                  actors::arbitrator_options{.file = world_.shared_file,
                                                             .timeouts = world_.timeouts,
                                                             .parameters = {},
                                                             .run_ledger = ledger_,
                                                             .seat = world_.is_tree() ? actors::arbitrator_seat::root
                                                                                      : actors::arbitrator_seat::alone,
                                                             .journal = journal_},
                                  aggregator_, actors::learner_actor{});
  return caf::actor_cast<caf::strong_actor_ptr>(judge_);
}

void arbitrator_host::commit(replication::journal_entry entry, const std::function<void(bool kept)>& done) {
  replication::word_list words;
  if (const auto fault = replication::encode(entry, words); !fault.empty())
    world_.checks.violated("the journal was given what is not an entry: " + fault);
  const auto verdict = kept_.apply(words).result;
  world_.log([&] { return fmt::format("journal: {}, {}", kind_name(entry), to_string(verdict)); });
  if (const auto* window = std::get_if<replication::window_decided>(&entry.content))
    world_.checks.decision_kept(window->decisions.front().key);
  if (const auto* formed = std::get_if<replication::generation_formed>(&entry.content))
    world_.checks.generation_kept(*formed);
  // Told when a majority has it, in the order of the calls.
  const std::int64_t longest_us = world_.random.chance(0.1) ? 80'000 : 3'000;
  told_us_ = std::max(told_us_, world_.time.now_us() + world_.random.between(0, longest_us));
  world_.time.after(told_us_ - world_.time.now_us(), [this, life = life_, done, verdict] {
    if (alive_ && life_ == life)
      done(verdict == replication::verdict::applied);
  });
}

void arbitrator_host::crash() {
  if (!alive_)
    return;
  world_.log([] { return std::string("host: dies"); });
  world_.time.thaw();
  alive_ = gateway_stands_ = false;
  ++life_;
  deferred_.clear();
  world_.checks.aggregator_gone();
  if (world_.is_tree())
    world_.nodes[0]->crash();
  world_.net.host_gone(root_host);
  end_actors();
  world_.time.run_jobs();
}

bool arbitrator_host::kill_aggregator() {
  if (!alive_ || !aggregator_)
    return false;
  if (replicated_) { // a leader's host ends with its aggregator, which would not know what the journal was given since
    crash();
    return true;
  }
  world_.log([] { return std::string("aggregator: is killed"); });
  world_.checks.aggregator_gone();
  caf::anon_send_exit(aggregator_, caf::exit_reason::kill);
  return false;
}

void arbitrator_host::kill_arbitrator() {
  if (!alive_ || !judge_)
    return;
  world_.log([] { return std::string("arbitrator: is killed"); });
  caf::anon_send_exit(judge_, caf::exit_reason::kill);
}

void arbitrator_host::command(const std::string& line) {
  if (!alive_ || !aggregator_ || world_.time.frozen())
    return;
  world_.log([&] { return "command: " + line; });
  caf::anon_send(aggregator_, atom::command_v, line);
}

void arbitrator_host::kill_gateway() {
  if (!alive_ || !gateway_)
    return;
  world_.log([] { return std::string("gateway: is killed"); });
  gateway_stands_ = false;
  caf::anon_send_exit(gateway_, caf::exit_reason::kill);
}

void arbitrator_host::freeze() {
  if (!alive_ || world_.time.frozen())
    return;
  world_.log([] { return std::string("host: is stopped"); });
  world_.time.freeze();
  world_.net.await_silence(root_host);
}

void arbitrator_host::thaw() {
  if (!world_.time.frozen())
    return;
  world_.log([] { return std::string("host: goes on"); });
  world_.time.thaw();
  for (auto& action : std::exchange(deferred_, {}))
    action();
  world_.net.settle(root_host);
}

void arbitrator_host::poll() {
  world_.time.after(poll_interval_us, [this, life = life_] {
    if (life == life_ && alive_)
      run([this] { poll(); });
  });
  const auto told = events_->take();
  if (told.failure || (world_.is_tree() && world_.nodes[0]->failed())) {
    world_.log([&] { return "host: " + told.failure.value_or("its shard failed too often"); });
    crash();
    world_.time.after(world_.random.between(200, 2000) * us_per_ms, [this] { start(); });
  } else if (told.arbitrator) {
    outcome_ = *told.arbitrator;
    world_.log([&] { return "host: ends, " + outcome_.reason; });
    world_.checks.run_ended(outcome_);
    crash();
    ended_ = true;
  }
}

bool arbitrator_host::reachable() const {
  return alive_ && gateway_stands_ && !world_.time.frozen();
}

void arbitrator_host::run(std::function<void()> action) {
  if (world_.time.frozen())
    deferred_.push_back(std::move(action));
  else
    action();
}

} // namespace dynamix::simulation
