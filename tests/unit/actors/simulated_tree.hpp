#pragma once

/// A tree's real actors in a simulated cluster. The test plays connectors and workers.

#include "actors/aggregator/aggregator.hpp"
#include "actors/arbitrator/arbitrator.hpp"
#include "actors/host/supervisor.hpp"
#include "actors/network/gateway.hpp"
#include "cluster/tree_plan.hpp"
#include "tests/unit/actors/simulated_cluster.hpp"

namespace dynamix::actors::testing {

class simulated_tree : public simulated_cluster {
public:
  simulated_tree(std::uint32_t workers, std::uint32_t fanout, std::uint64_t seed,
                 cluster::policy_kind policy = cluster::policy_kind::goodput)
      : simulated_cluster(workers, seed) {
    file.arbitrator.policy = policy;
    file.arbitrator.topology = cluster::arbitration_topology::tree;
    file.arbitrator.fanout = fanout;
    plan = cluster::plan_tree(file);
    nodes.resize(plan.nodes.size());
    root_door = system.spawn(gateway, gateway_options{"north", true, true}, events);
    for (std::size_t i = 1; i < nodes.size(); ++i)
      nodes[i].door = system.spawn(gateway, gateway_options{plan.nodes[i].host, true}, events);
    start_root();
    for (std::size_t i = 1; i < nodes.size(); ++i)
      start_node(i);
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      places.push_back(plan.shard_of(rank));
    run();
    advance(std::chrono::seconds(1));
  }

  ~simulated_tree() override {
    for (const auto& worker : handles)
      caf::anon_send_exit(worker, caf::exit_reason::kill);
    for (auto& node : nodes)
      end(node);
    caf::anon_send_exit(root, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(root_door, caf::exit_reason::kill);
    run();
  }

  /// The worker says hello at the place where it is; `training` in its newest generation.
  void say_hello(std::uint32_t rank, bool training = false) {
    messages::hello said;
    said.generation = inboxes[rank]->generation();
    said.training = training;
    for (std::uint32_t member = 0; training && member < handles.size(); ++member)
      said.members.push_back(member);
    said.steps = said.attempted_steps = inboxes[rank]->steps;
    sign(said, rank);
    caf::anon_send(nodes[places[rank]].door, atom::hello_v, pack(said), handles[rank]);
  }

  void join_all() {
    for (std::uint32_t rank = 0; rank < handles.size(); ++rank)
      say_hello(rank);
    run();
  }

  /// Every worker reports the window.
  void report_all(std::uint64_t window) {
    for (std::uint32_t rank = 0; rank < handles.size(); ++rank)
      if (!silent.contains(rank))
        send_report(rank, window);
    run();
  }

  void send_report(std::uint32_t rank, std::uint64_t window) {
    auto filled = report(rank, window);
    filled.training = {.steps = 10, .samples = 10ULL * filled.batch, .accuracy = 0.5, .iteration_seconds = 0.02};
    filled.training.compute_seconds = filled.batch * 1e-4 * (1 + rank % 3);
    inboxes[rank]->steps = 10 * window;
    if (nodes[places[rank]].aggregator)
      caf::anon_send(nodes[places[rank]].aggregator, atom::report_v, pack(filled));
  }

  /// The node's process ends, and is not started again.
  void kill_host(std::size_t node) {
    end(nodes[node]);
    nodes[node].dead = true;
    run();
  }

  struct node_actors {
    gateway_local door;
    aggregator_local aggregator;
    arbitrator_actor judge;
    caf::actor supervisor;
    bool dead = false;
  };

  cluster::tree_plan plan;
  gateway_local root_door;
  aggregator_local aggregator;
  caf::actor root;
  std::vector<node_actors> nodes;  ///< as in the plan; the root's is empty
  std::vector<std::size_t> places; ///< node of each worker

private:
  aggregator_actor aggregator_of(std::uint32_t rank) const override {
    const auto& aggregator = nodes[places[rank]].aggregator;
    return aggregator ? aggregator_actor{aggregator} : aggregator_actor{};
  }

  struct places_state {
    static constexpr const char* name = "places";
    std::size_t next = 0;
  };

  /// In a connector's place: reaches the next of the node's places that lives.
  connector_actor connect(std::size_t node) {
    const auto behave = [this, node](connector_actor::stateful_pointer<places_state> self) {
      const auto reach = [this, node, self] {
        const auto places = plan.places_for_node(node);
        for (std::size_t i = 0; i < places.size(); ++i) {
          const auto place = places[self->state.next++ % places.size()];
          if (place != 0 && nodes[place].dead)
            continue;
          const auto& door = place == 0 ? root_door : nodes[place].door;
          caf::anon_send(nodes[node].aggregator, atom::connected_v, caf::actor_cast<gateway_actor>(door));
          return;
        }
      };
      reach();
      return connector_actor::behavior_type{[](atom::attempt) {},
                                            [reach](atom::redirect, const std::string&) { reach(); },
                                            [](atom::serve, const gateway_actor&) {}};
    };
    return system.spawn(behave);
  }

  static void end(node_actors& node) {
    if (node.supervisor)
      caf::anon_send_exit(node.supervisor, caf::exit_reason::user_shutdown);
    if (node.door)
      caf::anon_send_exit(node.door, caf::exit_reason::kill);
    node = {};
  }

  void start_root() {
    std::vector<child_specification> children;
    children.push_back({"aggregator", [this] {
                          aggregator_options options{
                              .file = std::make_shared<const cluster::cluster_file>(file),
                              .timeouts = timeouts,
                              .role = root_options{.run_ledger = rows, .events = events, .plan = plan}};
                          aggregator = system.spawn(actors::aggregator, std::move(options));
                          caf::anon_send(root_door, atom::serve_v, caf::actor_cast<attacher_actor>(aggregator));
                          return caf::actor_cast<caf::strong_actor_ptr>(aggregator);
                        }});
    children.push_back({"arbitrator", [this] {
                          arbitrator_options options{.file = std::make_shared<const cluster::cluster_file>(file),
                                                     .timeouts = timeouts,
                                                     .parameters = {},
                                                     .run_ledger = rows,
                                                     .seat = arbitrator_seat::root};
                          return caf::actor_cast<caf::strong_actor_ptr>(
                              system.spawn(arbitrator, std::move(options), aggregator, learner_actor{}));
                        }});
    root = system.spawn(supervisor, supervision_options{.strategy = supervision_strategy::rest_for_one},
                        std::move(children), events, [](const std::string&) {});
  }

  void start_node(std::size_t index) {
    auto& node = nodes[index];
    std::vector<child_specification> children;
    children.push_back(
        {"shard", [this, index] {
           auto& node = nodes[index];
           shard_options role{.host = plan.nodes[index].host,
                              .parent = "north",
                              .incarnation = generator() | 1,
                              .first_rank = plan.nodes[index].first_rank,
                              .workers = plan.nodes[index].workers,
                              .levels_below =
                                  plan.nodes[index].is_shard() ? 0 : plan.depth - 1 - plan.nodes[index].level,
                              .events = nullptr};
           node.aggregator = system.spawn(
               actors::aggregator, aggregator_options{.file = std::make_shared<const cluster::cluster_file>(file),
                                                      .timeouts = timeouts,
                                                      .role = std::move(role)});
           if (plan.nodes[index].is_shard())
             caf::anon_send(node.door, atom::serve_v, caf::actor_cast<greeter_actor>(node.aggregator));
           else
             caf::anon_send(node.door, atom::serve_v, caf::actor_cast<attacher_actor>(node.aggregator));
           caf::anon_send(node.aggregator, atom::serve_v, connect(index));
           return caf::actor_cast<caf::strong_actor_ptr>(node.aggregator);
         }});
    if (plan.nodes[index].is_shard())
      children.push_back({"shard_arbitrator", [this, index] {
                            auto& node = nodes[index];
                            arbitrator_options options{.file = std::make_shared<const cluster::cluster_file>(file),
                                                       .timeouts = timeouts,
                                                       .parameters = {},
                                                       .seat = arbitrator_seat::shard,
                                                       .incarnation = generator() | 1};
                            node.judge = system.spawn(arbitrator, std::move(options), node.aggregator, learner_actor{});
                            return caf::actor_cast<caf::strong_actor_ptr>(node.judge);
                          }});
    node.supervisor = system.spawn(supervisor, supervision_options{.strategy = supervision_strategy::rest_for_one},
                                   std::move(children), events, [](const std::string&) {});
  }
};

} // namespace dynamix::actors::testing
