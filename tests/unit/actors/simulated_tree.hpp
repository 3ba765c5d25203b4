#pragma once

/// A tree's real actors under CAF's testing scheduler, as tests/unit/actors/simulated_shard.hpp has those of one
/// arbitrator. The test plays connectors and workers.

#include "actors/shard.hpp"
#include "actors/shard_arbitrator.hpp"
#include "cluster/tree_plan.hpp"
#include "tests/unit/actors/simulated_shard.hpp"

namespace dynamix::actors::testing {

class simulated_tree {
public:
  simulated_tree(std::uint32_t workers, std::uint32_t fanout, std::uint64_t seed,
                 cluster::policy_kind policy = cluster::policy_kind::goodput)
      : generator(seed) {
    file.name = "simulated";
    file.seed = seed;
    file.arbitrator.policy = policy;
    file.arbitrator.topology = cluster::arbitration_topology::tree;
    file.arbitrator.fanout = fanout;
    file.hosts = {{.name = "north", .port = 1, .roles = {cluster::role::arbitrator}}};
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      file.hosts.push_back({.name = "w" + std::to_string(rank), .port = static_cast<std::uint16_t>(rank + 2)});
    plan = cluster::plan_tree(file);
    scheduler().clock().current_time += std::chrono::hours(1);
    nodes.resize(plan.nodes.size());
    root_door = system.spawn(gateway, std::string("north"), true, events);
    for (std::size_t i = 1; i < nodes.size(); ++i)
      nodes[i].door = system.spawn(gateway, plan.nodes[i].host, true, events);
    start_root();
    for (std::size_t i = 1; i < nodes.size(); ++i)
      start_node(i);
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      inboxes.push_back(std::make_shared<inbox>());
      handles.push_back(system.spawn(recording_worker, inboxes.back()));
      places.push_back(plan.shard_of(rank));
    }
    run();
    advance(std::chrono::seconds(1));
  }

  ~simulated_tree() {
    for (const auto& worker : handles)
      caf::anon_send_exit(worker, caf::exit_reason::kill);
    for (auto& node : nodes)
      end(node);
    caf::anon_send_exit(root, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(root_door, caf::exit_reason::kill);
    run();
  }

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }

  void run() {
    auto& jobs = scheduler().jobs;
    for (int limit = 0; !jobs.empty() && limit < 1'000'000; ++limit) {
      std::swap(jobs.front(), jobs[generator() % jobs.size()]);
      scheduler().run_once();
    }
  }

  void advance(std::chrono::milliseconds by) {
    const std::chrono::milliseconds slice(timeouts.beat_interval_ms / 2);
    for (auto left = by; left.count() > 0; left -= slice) {
      for (std::uint32_t rank = 0; rank < handles.size(); ++rank)
        if (!silent.contains(rank) && nodes[places[rank]].hub)
          caf::anon_send(nodes[places[rank]].hub, atom::beat_v,
                         pack(messages::heartbeat{.rank = rank,
                                                  .incarnation = rank + 1,
                                                  .generation = inboxes[rank]->generation(),
                                                  .steps = inboxes[rank]->steps}));
      run();
      scheduler().advance_time(std::min(slice, left));
      run();
    }
  }

  /// The worker says hello at the place where it is; `training` in its newest generation.
  void say_hello(std::uint32_t rank, bool training = false) {
    messages::hello said;
    said.generation = inboxes[rank]->generation();
    said.training = training;
    for (std::uint32_t member = 0; training && member < handles.size(); ++member)
      said.members.push_back(member);
    said.steps = said.attempted_steps = inboxes[rank]->steps;
    said.cluster = file.name;
    said.cluster_digest = file.digest();
    said.host = "w" + std::to_string(rank);
    said.incarnation = rank + 1;
    said.heartbeat_interval_ms = timeouts.heartbeat_interval_ms;
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
    const auto& decisions = inboxes[rank]->decisions;
    messages::window_report filled{.host = "w" + std::to_string(rank),
                                   .rank = rank,
                                   .generation = std::max<std::uint64_t>(1, inboxes[rank]->generation()),
                                   .window = window,
                                   .first_step = (window - 1) * file.arbitrator.window_steps,
                                   .batch = decisions.empty() ? file.batch.initial : decisions.back().batch};
    if (!decisions.empty())
      filled.decision = decisions.back().key;
    filled.global_batch = filled.batch;
    filled.training = {.steps = 10, .samples = 10ULL * filled.batch, .accuracy = 0.5, .iteration_seconds = 0.02};
    filled.training.compute_seconds = filled.batch * 1e-4 * (1 + rank % 3);
    inboxes[rank]->steps = 10 * window;
    if (nodes[places[rank]].hub)
      caf::anon_send(nodes[places[rank]].hub, atom::report_v, pack(filled));
  }

  /// The node's process ends, and is not started again.
  void kill_host(std::size_t node) {
    end(nodes[node]);
    nodes[node].dead = true;
    run();
  }

  struct node_actors {
    gateway_local door;
    shard_local hub;
    shard_arbitrator_actor judge;
    caf::actor supervisor;
    bool dead = false;
  };

  cluster::cluster_file file;
  cluster::tree_plan plan;
  cluster::timeouts timeouts = cluster::derive_timeouts(1000);
  std::mt19937_64 generator;
  simulation_config config;
  caf::actor_system system{config};
  std::shared_ptr<memory_ledger> rows = std::make_shared<memory_ledger>();
  std::shared_ptr<host_events> events = std::make_shared<host_events>();
  gateway_local root_door;
  aggregator_local hub;
  caf::actor root;
  std::vector<node_actors> nodes; ///< as in the plan; the root's is empty
  std::vector<std::shared_ptr<inbox>> inboxes;
  std::vector<worker_actor> handles;
  std::vector<std::size_t> places; ///< node of each worker
  std::set<std::uint32_t> silent;

private:
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
          caf::anon_send(nodes[node].hub, atom::connected_v, caf::actor_cast<gateway_actor>(door));
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
                              .file = file, .timeouts = timeouts, .run_ledger = rows, .events = events, .plan = plan};
                          hub = system.spawn(aggregator, std::move(options));
                          caf::anon_send(root_door, atom::serve_v, caf::actor_cast<attacher_actor>(hub));
                          return caf::actor_cast<caf::strong_actor_ptr>(hub);
                        }});
    children.push_back({"arbitrator", [this] {
                          arbitrator_options options{
                              .file = file, .timeouts = timeouts, .parameters = {}, .run_ledger = rows, .tree = true};
                          return caf::actor_cast<caf::strong_actor_ptr>(
                              system.spawn(arbitrator, std::move(options), hub, learner_actor{}));
                        }});
    root = system.spawn(supervisor, supervision_options{.strategy = supervision_strategy::rest_for_one},
                        std::move(children), events, [](const std::string&) {});
  }

  void start_node(std::size_t index) {
    auto& node = nodes[index];
    std::vector<child_specification> children;
    children.push_back({"shard", [this, index] {
                          auto& node = nodes[index];
                          node.hub = system.spawn(shard, shard_options{.file = file,
                                                                       .timeouts = timeouts,
                                                                       .host = plan.nodes[index].host,
                                                                       .parent = "north",
                                                                       .incarnation = generator() | 1,
                                                                       .events = nullptr});
                          if (plan.nodes[index].is_shard())
                            caf::anon_send(node.door, atom::serve_v, caf::actor_cast<greeter_actor>(node.hub));
                          else
                            caf::anon_send(node.door, atom::serve_v, caf::actor_cast<attacher_actor>(node.hub));
                          caf::anon_send(node.hub, atom::serve_v, connect(index));
                          return caf::actor_cast<caf::strong_actor_ptr>(node.hub);
                        }});
    if (plan.nodes[index].is_shard())
      children.push_back({"shard_arbitrator", [this, index] {
                            auto& node = nodes[index];
                            node.judge = system.spawn(shard_arbitrator, file, std::vector<std::uint8_t>{}, node.hub);
                            return caf::actor_cast<caf::strong_actor_ptr>(node.judge);
                          }});
    node.supervisor = system.spawn(supervisor, supervision_options{.strategy = supervision_strategy::rest_for_one},
                                   std::move(children), events, [](const std::string&) {});
  }
};

} // namespace dynamix::actors::testing
