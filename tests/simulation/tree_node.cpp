#include "tests/simulation/tree_node.hpp"

#include "actors/handlers.hpp"
#include "tests/simulation/remote.hpp"
#include "tests/simulation/simulation.hpp"

#include <utility>

namespace dynamix::simulation {

namespace {

struct connector_state {
  static constexpr const char* name = "connector";
  std::vector<std::uint32_t> targets; ///< hosts
  session::reconnection next;
  actors::gateway_actor reached; ///< null while not connected
  bool attempt_due = false;
};
using connector_pointer = actors::connector_actor::stateful_pointer<connector_state>;

void attempt_later(connector_pointer self, double delay_seconds) {
  if (!std::exchange(self->state.attempt_due, true))
    self->delayed_send(self, actors::to_milliseconds(delay_seconds), atom::attempt_v);
}

/// As actors/network/connector does, over the simulation's network.
actors::connector_actor::behavior_type connector(connector_pointer self, simulation* world, tree_node* node,
                                                 std::vector<std::uint32_t> targets, double first_seconds,
                                                 actors::aggregator_local shard) {
  auto& state = self->state;
  session::reconnection_options options{.hosts = {}, .first_seconds = first_seconds};
  for (const auto host : targets)
    options.hosts.push_back(world->host_name(host));
  state.targets = std::move(targets);
  state.next = session::reconnection(std::move(options), actors::seconds_now(self));
  const auto lose = [self, shard] {
    self->state.reached = nullptr;
    self->send(shard, atom::lost_v);
  };
  self->set_down_handler([self, lose](const caf::down_msg& down) {
    if (!self->state.reached || down.source != self->state.reached.address())
      return;
    lose();
    attempt_later(self, self->state.next.failed(actors::seconds_now(self)));
  });
  self->send(shard, atom::serve_v, actors::connector_actor{self});
  attempt_later(self, 0);
  return {
      [self, world, node, shard](atom::attempt) {
        auto& state = self->state;
        state.attempt_due = false;
        if (state.reached)
          return;
        const auto server = state.targets[state.next.target()];
        if (server == node->host()) {
          if (world->reachable(server))
            state.reached = world->gateway(server);
        } else if (const auto through = world->net.connect(*node, node->host(), server)) {
          state.reached = caf::actor_cast<actors::gateway_actor>(
              remote_at(*world, through, side::client, caf::actor_cast<caf::strong_actor_ptr>(through->gateway)));
        }
        if (!state.reached) // nobody is so quick to refuse as a test
          return attempt_later(self, 0.1 + state.next.failed(actors::seconds_now(self)));
        state.next.reached();
        self->monitor(state.reached);
        self->send(shard, atom::connected_v, state.reached);
      },
      [self, lose](atom::redirect, const std::string& leader) {
        if (!self->state.reached)
          return;
        self->demonitor(self->state.reached.address());
        lose();
        attempt_later(self, self->state.next.redirected(leader, actors::seconds_now(self)));
      },
      [](atom::serve, const actors::gateway_actor&) {},
  };
}

} // namespace

std::uint32_t tree_node::host() const {
  return world_.host_of_node(index_);
}

void tree_node::start() {
  if (alive_)
    return;
  alive_ = true;
  events_ = std::make_shared<actors::host_events>();
  auto& system = shared_actor_system();
  const auto told = [](const std::string&) {};
  if (index_ != 0) {
    std::vector<actors::child_specification> door;
    door.push_back({"gateway", [this] { return start_gateway(); }});
    supervisors_.push_back(system.spawn(actors::supervisor, actors::supervision_options{.seed = world_.file.seed},
                                        std::move(door), events_, told));
  }
  std::vector<actors::child_specification> children;
  children.push_back({"shard", [this] { return start_shard(); }});
  children.push_back({"shard_connector", [this] { return start_connector(); }});
  if (index_ == 0 || world_.plan.nodes[index_].is_shard())
    children.push_back({"shard_arbitrator", [this] { return start_arbitrator(); }});
  supervisors_.push_back(
      system.spawn(actors::supervisor,
                   actors::supervision_options{.strategy = actors::supervision_strategy::rest_for_one,
                                               .seed = world_.file.seed + index_},
                   std::move(children), events_, told));
}

void tree_node::crash() {
  if (!std::exchange(alive_, false))
    return;
  gateway_stands_ = false;
  for (const auto& supervisor : std::exchange(supervisors_, {}))
    caf::anon_send_exit(supervisor, caf::exit_reason::kill);
  if (index_ == 0) // the gateway is not its own
    gateway_ = nullptr;
  for (const auto& one : {caf::actor_cast<caf::actor>(std::exchange(judge_, nullptr)),
                          caf::actor_cast<caf::actor>(std::exchange(connector_, nullptr)),
                          caf::actor_cast<caf::actor>(std::exchange(shard_, nullptr)),
                          caf::actor_cast<caf::actor>(std::exchange(gateway_, nullptr))})
    if (one)
      caf::anon_send_exit(one, caf::exit_reason::kill);
}

void tree_node::kill(const caf::actor& one, const char* what) {
  if (!alive_ || !one)
    return;
  world_.log([&] { return fmt::format("{}: its {} is killed", world_.host_name(host()), what); });
  caf::anon_send_exit(one, caf::exit_reason::kill);
}

void tree_node::kill_shard() {
  kill(caf::actor_cast<caf::actor>(shard_), "shard");
}

void tree_node::kill_arbitrator() {
  kill(caf::actor_cast<caf::actor>(judge_), "shard arbitrator");
}

void tree_node::kill_gateway() {
  if (index_ == 0)
    return;
  gateway_stands_ = false;
  kill(caf::actor_cast<caf::actor>(gateway_), "gateway");
}

caf::strong_actor_ptr tree_node::start_gateway() {
  gateway_ =
      shared_actor_system().spawn(actors::gateway, actors::gateway_options{world_.host_name(host()), true}, events_);
  gateway_stands_ = true;
  tell_gateway();
  return caf::actor_cast<caf::strong_actor_ptr>(gateway_);
}

caf::strong_actor_ptr tree_node::start_shard() {
  const auto& nodes = world_.plan.nodes;
  actors::shard_options role{
      .host = world_.host_name(host()),
      .parent = nodes[nodes[index_].parent].host,
      .incarnation = world_.next_incarnation++,
      .first_rank = nodes[index_].first_rank,
      .workers = index_ == 0 ? 0 : nodes[index_].workers,
      .levels_below = index_ == 0 || nodes[index_].is_shard() ? 0 : world_.plan.depth - 1 - nodes[index_].level,
      .events = index_ == 0 ? nullptr : events_};
  shard_ = shared_actor_system().spawn(
      actors::aggregator,
      actors::aggregator_options{.file = world_.shared_file, .timeouts = world_.timeouts, .role = std::move(role)});
  tell_gateway();
  return caf::actor_cast<caf::strong_actor_ptr>(shard_);
}

caf::strong_actor_ptr tree_node::start_connector() {
  std::vector<std::uint32_t> targets;
  if (index_ == 0)
    targets.push_back(root_host);
  else
    for (const auto place : world_.plan.places_for_node(index_))
      targets.push_back(world_.host_of_node(place));
  const double first_seconds = connector_ ? 0 : world_.timeouts.rejoin_timeout_ms / 1000.0;
  connector_ = shared_actor_system().spawn(connector, &world_, this, std::move(targets), first_seconds, shard_);
  return caf::actor_cast<caf::strong_actor_ptr>(connector_);
}

caf::strong_actor_ptr tree_node::start_arbitrator() {
  judge_ = shared_actor_system().spawn(actors::arbitrator,
                                       actors::arbitrator_options{.file = world_.shared_file,
                                                                  .timeouts = world_.timeouts,
                                                                  .parameters = {},
                                                                  .run_ledger = nullptr,
                                                                  .seat = actors::arbitrator_seat::shard},
                                       shard_, actors::learner_actor{});
  return caf::actor_cast<caf::strong_actor_ptr>(judge_);
}

void tree_node::tell_gateway() {
  if (!gateway_ || !shard_)
    return;
  if (index_ == 0 || world_.plan.nodes[index_].is_shard())
    caf::anon_send(gateway_, atom::serve_v, caf::actor_cast<actors::greeter_actor>(shard_));
  else
    caf::anon_send(gateway_, atom::serve_v, caf::actor_cast<actors::attacher_actor>(shard_));
}

void tree_node::serve(const actors::gateway_local& gateway) {
  gateway_ = gateway;
  tell_gateway();
}

} // namespace dynamix::simulation
