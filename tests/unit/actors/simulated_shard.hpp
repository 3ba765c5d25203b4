#pragma once

/// The real actors of one arbitrator's host in a simulated cluster.

#include "actors/aggregator/aggregator.hpp"
#include "actors/arbitrator/arbitrator.hpp"
#include "actors/host/supervisor.hpp"
#include "actors/network/gateway.hpp"
#include "tests/unit/actors/simulated_cluster.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::actors::testing {

class simulated_shard : public simulated_cluster {
public:
  simulated_shard(std::uint32_t workers, std::uint64_t seed) : simulated_cluster(workers, seed) {
    file.arbitrator.policy = cluster::policy_kind::ppo;
    door = system.spawn(gateway, gateway_options{"north", true}, events);
    start_aggregator();
    run();
  }

  ~simulated_shard() override {
    for (const auto& worker : handles)
      caf::anon_send_exit(worker, caf::exit_reason::kill);
    caf::anon_send_exit(tree, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(door, caf::exit_reason::kill);
    run();
  }

  void kill(std::uint32_t rank) {
    silent.insert(rank);
    caf::anon_send_exit(handles[rank], caf::exit_reason::kill);
  }

  /// The worker has left its generation, and waits.
  void say_hello_again(std::uint32_t rank) {
    messages::hello said;
    said.generation = inboxes[rank]->generation();
    said.steps = said.attempted_steps = inboxes[rank]->steps;
    say_hello(rank, said);
  }

  /// The worker trains, and meets an arbitrator that does not know it.
  void say_hello_in_training(std::uint32_t rank, messages::hello said = {}) {
    if (said.generation == 0)
      said.generation = inboxes[rank]->generation();
    said.training = true;
    for (std::uint32_t member = 0; member < handles.size(); ++member)
      said.members.push_back(member);
    say_hello(rank, said);
  }

  void say_hello(std::uint32_t rank, messages::hello said = {}) {
    sign(said, rank);
    caf::anon_send(door, atom::hello_v, pack(said), handles[rank]);
  }

  /// Every worker joins.
  void join_all() {
    for (std::uint32_t rank = 0; rank < handles.size(); ++rank)
      say_hello(rank);
    run();
  }

  void send_report(std::uint32_t rank, std::uint64_t window, bool final = false) {
    caf::anon_send(aggregator, atom::report_v, pack(report(rank, window, final)));
  }

  void say_farewell(std::uint32_t rank, bool succeeded = true) {
    messages::farewell said{.host = "w" + std::to_string(rank), .rank = rank, .succeeded = succeeded, .reason = "done"};
    caf::anon_send(aggregator, atom::farewell_v, pack(said));
  }

  gateway_local door;
  aggregator_local aggregator;
  arbitrator_actor judge;
  caf::actor tree;

private:
  aggregator_actor aggregator_of(std::uint32_t) const override { return aggregator; }

  void start_aggregator() {
    std::vector<child_specification> children;
    children.push_back({"aggregator", [this] {
                          aggregator_options options{.file = std::make_shared<const cluster::cluster_file>(file),
                                                     .timeouts = timeouts,
                                                     .role = root_options{.run_ledger = rows, .events = events}};
                          aggregator = system.spawn(actors::aggregator, std::move(options));
                          caf::anon_send(door, atom::serve_v, caf::actor_cast<greeter_actor>(aggregator));
                          return caf::actor_cast<caf::strong_actor_ptr>(aggregator);
                        }});
    children.push_back({"arbitrator", [this] {
                          arbitrator_options options{.file = std::make_shared<const cluster::cluster_file>(file),
                                                     .timeouts = timeouts,
                                                     .parameters = {},
                                                     .run_ledger = rows};
                          judge = system.spawn(arbitrator, std::move(options), aggregator, learner_actor{});
                          return caf::actor_cast<caf::strong_actor_ptr>(judge);
                        }});
    tree = system.spawn(supervisor, supervision_options{.strategy = supervision_strategy::rest_for_one},
                        std::move(children), events, [this](const std::string& reason) {
                          rows->append({.entry = ledger::event{ledger::event_kind::restarted, "", reason}});
                        });
  }
};

} // namespace dynamix::actors::testing
