#pragma once

/// What tests of several actors run in: CAF's testing scheduler, a ledger in memory, workers that record.

#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/packing.hpp"
#include "cluster/cluster_file.hpp"
#include "cluster/timeouts.hpp"
#include "ledger/file.hpp"
#include "tests/unit/actors/simulation_config.hpp"

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
class memory_ledger final : public ledger::writer {
public:
  void append(const ledger::row& row) override { rows.push_back(row); }
  std::vector<ledger::row> rows;

  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const auto& row : rows)
      if (const auto* entry = std::get_if<T>(&row.entry))
        found.push_back(*entry);
    return found;
  }
};

/// What a worker has received.
struct inbox {
  std::vector<messages::decision> decisions;
  std::vector<messages::placement> places;
  std::vector<messages::generation_notice> notices;
  std::uint64_t steps = 0; ///< that the worker has completed
  std::uint64_t stops = 0; ///< asked for

  std::uint64_t generation() const { return places.empty() ? 0 : places.back().generation; }
};

inline worker_actor::behavior_type recording_worker(worker_actor::pointer, std::shared_ptr<inbox> received) {
  return {
      [received](atom::decide, const messages::message<messages::decision>& decision) {
        received->decisions.push_back(*unpack<messages::decision>(decision, "test"));
      },
      [received](atom::place, const messages::message<messages::placement>& place, const store_actor&) {
        received->places.push_back(*unpack<messages::placement>(place, "test"));
      },
      [received](atom::closed, const messages::message<messages::generation_notice>& notice) {
        received->notices.push_back(*unpack<messages::generation_notice>(notice, "test"));
      },
      [received](atom::stop) { ++received->stops; },
  };
}

/// An actor system with a cluster's recording workers: every job is run by the test in a seeded order and in virtual
/// time. What they work for comes from the class that inherits.
class simulated_cluster {
public:
  /// Runs all that is runnable now, each time a job that the seed picks.
  void run() {
    auto& jobs = scheduler().jobs;
    for (int limit = 0; !jobs.empty() && limit < 1'000'000; ++limit) {
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

  /// The hello says whose it is.
  void sign(messages::hello& said, std::uint32_t rank) const {
    said.cluster = file.name;
    said.cluster_digest = file.digest();
    said.host = "w" + std::to_string(rank);
    said.incarnation = rank + 1;
    said.heartbeat_interval_ms = timeouts.heartbeat_interval_ms;
  }

  void beat_all() {
    for (std::uint32_t rank = 0; rank < handles.size(); ++rank)
      if (const auto aggregator = aggregator_of(rank); aggregator && !silent.contains(rank))
        caf::anon_send(aggregator, atom::beat_v,
                       pack(messages::heartbeat{.rank = rank,
                                                .incarnation = rank + 1,
                                                .generation = inboxes[rank]->generation(),
                                                .steps = inboxes[rank]->steps}));
  }

  /// As the worker would report the window, under the decision that it heard last.
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

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }

  cluster::cluster_file file;
  cluster::timeouts timeouts = cluster::derive_timeouts(1000);
  std::mt19937_64 generator;
  simulation_config config;
  caf::actor_system system{config};
  std::shared_ptr<memory_ledger> rows = std::make_shared<memory_ledger>();
  std::shared_ptr<host_events> events = std::make_shared<host_events>();
  std::vector<std::shared_ptr<inbox>> inboxes;
  std::vector<worker_actor> handles;
  std::set<std::uint32_t> silent; ///< give no signs of life

protected:
  simulated_cluster(std::uint32_t workers, std::uint64_t seed) : generator(seed) {
    file.name = "simulated";
    file.seed = seed;
    file.hosts = {{.name = "north", .port = 1, .roles = {cluster::role::arbitrator}}};
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      file.hosts.push_back({.name = "w" + std::to_string(rank), .port = static_cast<std::uint16_t>(rank + 2)});
    // CAF's simulated clock must not start at zero.
    scheduler().clock().current_time += std::chrono::hours(1);
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      inboxes.push_back(std::make_shared<inbox>());
      handles.push_back(system.spawn(recording_worker, inboxes.back()));
    }
  }
  simulated_cluster(const simulated_cluster&) = delete;
  simulated_cluster& operator=(const simulated_cluster&) = delete;
  virtual ~simulated_cluster() = default;

  /// Whom the worker reports to; null: nobody is there.
  virtual aggregator_actor aggregator_of(std::uint32_t rank) const = 0;
};

} // namespace dynamix::actors::testing
