#pragma once

/// One shard's real actors under CAF's testing scheduler: every job is run by the test in a seeded order and in virtual
/// time.

#include "actors/aggregator.hpp"
#include "actors/arbitrator.hpp"
#include "actors/gateway.hpp"
#include "actors/packing.hpp"
#include "actors/supervisor.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace dynamix::actors::testing {

/// A ledger in memory.
class memory_ledger final : public ledger {
public:
  void append(const ledger_row& row) override { rows.push_back(row); }
  std::vector<ledger_row> rows;

  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const auto& row : rows)
      if (const auto* entry = std::get_if<T>(&row.entry))
        found.push_back(*entry);
    return found;
  }
};

class simulation_config : public caf::actor_system_config {
public:
  simulation_config() {
    add_message_types<caf::id_block::dynamix_messages>();
    add_message_types<caf::id_block::dynamix_actors>();
    set("scheduler.policy", caf::atom("testing"));
  }
};

/// What a worker has received.
struct inbox {
  std::vector<messages::decision> decisions;
  std::vector<messages::placement> places;
  std::vector<messages::generation_notice> notices;
  std::uint64_t steps = 0; ///< that the worker has completed

  std::uint64_t generation() const { return places.empty() ? 0 : places.back().generation; }
};

inline worker_actor::behavior_type recording_worker(worker_actor::pointer, std::shared_ptr<inbox> received) {
  return {
      [received](atom::decide, const frame& decision) {
        received->decisions.push_back(*unpack<messages::decision>(decision, "test"));
      },
      [received](atom::place, const frame& place, const store_actor&) {
        received->places.push_back(*unpack<messages::placement>(place, "test"));
      },
      [received](atom::closed, const frame& notice) {
        received->notices.push_back(*unpack<messages::generation_notice>(notice, "test"));
      },
  };
}

class simulated_shard {
public:
  simulated_shard(std::uint32_t workers, std::uint64_t seed) : generator(seed) {
    file.name = "simulated";
    file.seed = seed;
    file.arbitrator.policy = cluster::policy_kind::ppo;
    file.hosts = {{.name = "north", .port = 1, .roles = {cluster::role::arbitrator}}};
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      file.hosts.push_back({.name = "w" + std::to_string(rank), .port = static_cast<std::uint16_t>(rank + 2)});
    // CAF's simulated clock must not start at zero.
    scheduler().clock().current_time += std::chrono::hours(1);
    door = system.spawn(gateway, std::string("north"), true, events);
    start_hub();
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      inboxes.push_back(std::make_shared<inbox>());
      handles.push_back(system.spawn(recording_worker, inboxes.back()));
    }
    run();
  }

  ~simulated_shard() {
    for (const auto& worker : handles)
      caf::anon_send_exit(worker, caf::exit_reason::kill);
    caf::anon_send_exit(tree, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(door, caf::exit_reason::kill);
    run();
  }

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }

  /// Runs all that is runnable now, each time a job that the seed picks.
  void run() {
    auto& jobs = scheduler().jobs;
    for (int limit = 0; !jobs.empty() && limit < 100'000; ++limit) {
      std::swap(jobs.front(), jobs[generator() % jobs.size()]);
      scheduler().run_once();
    }
  }

  /// Time passes, in which every worker that lives gives signs of life.
  void advance(std::chrono::milliseconds by) {
    const std::chrono::milliseconds slice(timeouts.beat_interval_ms / 2);
    for (auto left = by; left.count() > 0; left -= slice) {
      beat_all();
      run();
      scheduler().advance_time(std::min(slice, left));
      run();
    }
  }

  void beat_all() {
    for (std::uint32_t rank = 0; rank < handles.size(); ++rank)
      if (!silent.contains(rank))
        caf::anon_send(hub, atom::beat_v,
                       pack(messages::heartbeat{.rank = rank,
                                                .incarnation = rank + 1,
                                                .generation = inboxes[rank]->generation(),
                                                .steps = inboxes[rank]->steps}));
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
    said.cluster = file.name;
    said.cluster_digest = file.digest();
    said.host = "w" + std::to_string(rank);
    said.incarnation = rank + 1;
    said.heartbeat_interval_ms = timeouts.heartbeat_interval_ms;
    caf::anon_send(door, atom::hello_v, pack(said), handles[rank]);
  }

  /// Every worker joins.
  void join_all() {
    for (std::uint32_t rank = 0; rank < handles.size(); ++rank)
      say_hello(rank);
    run();
  }

  messages::window_report report(std::uint32_t rank, std::uint64_t window, bool final = false) const {
    const auto& decisions = inboxes[rank]->decisions;
    messages::window_report filled{.host = "w" + std::to_string(rank),
                                   .rank = rank,
                                   .generation = std::max<std::uint64_t>(1, inboxes[rank]->generation()),
                                   .window = window,
                                   .first_step = (window - 1) * file.arbitrator.window_steps,
                                   .final = final,
                                   .batch = decisions.empty() ? file.batch.initial : decisions.back().batch};
    if (!decisions.empty())
      filled.decision = decisions.back().key;
    filled.global_batch = filled.batch;
    filled.training.steps = file.arbitrator.window_steps;
    filled.training.samples = filled.batch * file.arbitrator.window_steps;
    filled.training.accuracy = 0.5;
    filled.training.iteration_seconds = 0.01 * (rank + 1);
    filled.training.compute_seconds = 0.01;
    filled.training.learning_rate = 0.1;
    return filled;
  }

  void send_report(std::uint32_t rank, std::uint64_t window, bool final = false) {
    caf::anon_send(hub, atom::report_v, pack(report(rank, window, final)));
  }

  void say_farewell(std::uint32_t rank, bool succeeded = true) {
    messages::farewell said{.host = "w" + std::to_string(rank), .rank = rank, .succeeded = succeeded, .reason = "done"};
    caf::anon_send(hub, atom::farewell_v, pack(said));
  }

  cluster::cluster_file file;
  cluster::timeouts timeouts = cluster::derive_timeouts(1000);
  std::mt19937_64 generator;
  simulation_config config;
  caf::actor_system system{config};
  std::shared_ptr<memory_ledger> rows = std::make_shared<memory_ledger>();
  std::shared_ptr<host_events> events = std::make_shared<host_events>();
  gateway_local door;
  aggregator_local hub;
  arbitrator_actor judge;
  caf::actor tree;
  std::vector<std::shared_ptr<inbox>> inboxes;
  std::vector<worker_actor> handles;
  std::set<std::uint32_t> silent; ///< give no signs of life

private:
  void start_hub() {
    std::vector<child_specification> children;
    children.push_back({"aggregator", [this] {
                          aggregator_options options{
                              .file = file, .timeouts = timeouts, .run_ledger = rows, .events = events};
                          hub = system.spawn(aggregator, std::move(options));
                          caf::anon_send(door, atom::serve_v, hub);
                          return caf::actor_cast<caf::strong_actor_ptr>(hub);
                        }});
    children.push_back({"arbitrator", [this] {
                          arbitrator_options options{
                              .file = file, .timeouts = timeouts, .parameters = {}, .run_ledger = rows};
                          judge = system.spawn(arbitrator, std::move(options), hub, learner_actor{});
                          return caf::actor_cast<caf::strong_actor_ptr>(judge);
                        }});
    tree = system.spawn(supervisor, supervision_options{.strategy = supervision_strategy::rest_for_one},
                        std::move(children), events, [this](const std::string& reason) {
                          rows->append({.entry = ledger_event{"restarted", "", reason}});
                        });
  }
};

} // namespace dynamix::actors::testing
