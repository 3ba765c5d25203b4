#pragma once

/// One simulated run: the real actors of one arbitrator or of a tree of them, workers
/// that run the real protocol, a modelled network, faults by a seed, then a time without
/// faults in which the run must come together again and end.

#include "actors/network/worker_names.hpp"
#include "cluster/tree_plan.hpp"
#include "tests/simulation/arbitrator_side.hpp"
#include "tests/simulation/faults.hpp"
#include "tests/simulation/invariants.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/ring.hpp"
#include "tests/simulation/tree_node.hpp"
#include "tests/simulation/virtual_time.hpp"
#include "tests/simulation/worker_model.hpp"

#include <spdlog/fmt/fmt.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::simulation {

struct simulation_result {
  std::string violation; ///< empty: none
  std::vector<std::string> log;
  std::int64_t virtual_us = 0;
  std::uint64_t events = 0;
  std::uint64_t generations = 0;
  std::uint64_t decisions = 0;
  std::uint64_t faults = 0;
};

enum class arbitration_form : std::uint8_t { central, tree };

class simulation {
public:
  simulation(std::uint64_t seed, arbitration_form form, bool keep_log);
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  simulation_result run();

  template <class Text>
  void log(Text text) {
    if (keep_log_)
      log_.push_back(fmt::format("{:12.6f} {}", static_cast<double>(time.now_us()) / us_per_second, text()));
  }
  const std::string& name_of(std::uint32_t rank) const { return names_[rank]; }

  // Hosts, by number (network.hpp).
  const std::string& host_name(std::uint32_t host) const;
  /// Of its process.
  std::uint64_t life(std::uint32_t host) const;
  bool stopped(std::uint32_t host) const;
  /// Its gateway can be reached.
  bool reachable(std::uint32_t host) const;
  actors::gateway_actor gateway(std::uint32_t host) const;
  /// Runs in that process: later when it is stopped, never when it is gone.
  void run_at(std::uint32_t host, std::uint64_t life, std::function<void()> action);

  // Of a tree.
  bool is_tree() const { return !plan.nodes.empty(); }
  std::uint32_t host_of_node(std::size_t node) const;
  /// What a worker's host holds of the tree; null: nothing.
  tree_node* node_at(std::uint32_t host) const;
  /// Hosts where the worker looks for an arbitrator, in this order.
  std::vector<std::uint32_t> places_for(std::uint32_t rank) const;

  std::shared_ptr<ring> ring_at(const meeting_point& where, const messages::placement& place);
  /// Something that held steps up may be over.
  void retry_rings();
  void cut_peers(std::uint32_t one, std::uint32_t other) { cut_pairs_.insert(std::minmax(one, other)); }
  void heal_peers(std::uint32_t one, std::uint32_t other);
  bool peers_cut(std::uint32_t one, std::uint32_t other) const { return cut_pairs_.contains(std::minmax(one, other)); }

  void write_checkpoint(const training_state& state);
  /// The state that a worker without memory starts from: of its checkpoint, or a fresh model.
  training_state load_checkpoint(const simulated_worker& worker) const;
  /// The workers of its host, itself among them: they come and go together.
  std::vector<std::uint32_t> mates(std::uint32_t rank) const;
  /// With its host.
  void restart_worker(std::uint32_t rank, std::int64_t delay_us);
  void start_worker(std::uint32_t rank);

  const std::uint64_t seed;
  random_source random;
  virtual_time time;
  cluster::cluster_file file; ///< a host for each worker
  /// The same, for actors; in some seeds that of an open cluster, which names but some of the workers.
  std::shared_ptr<const cluster::cluster_file> shared_file;
  std::shared_ptr<actors::worker_names> names; ///< by rank, as the arbitrator's host keeps them
  cluster::tree_plan plan;                     ///< without nodes: one arbitrator has all workers
  std::uint64_t digest = 0;                    ///< of the actors' file
  cluster::timeouts timeouts;
  std::uint64_t total_steps; ///< of training
  std::uint64_t checkpoint_interval = 10;
  std::uint64_t next_incarnation = 1;
  invariants checks;
  std::vector<std::unique_ptr<simulated_worker>> workers;
  std::vector<std::unique_ptr<tree_node>> nodes; ///< as in the plan
  arbitrator_host host;
  network net;
  fault_injector faults;
  /// Expires with the simulation, which some of its actors outlive for a moment.
  std::shared_ptr<const bool> token = std::make_shared<const bool>(true);

private:
  void heal();
  bool step(std::int64_t until_us);
  void run_until_together();
  void run_to_the_end();
  bool all_together() const;
  bool all_ended() const;

  bool keep_log_;
  bool must_end_well_ = false; ///< no fault can have kept anybody from it
  std::vector<std::string> log_;
  std::vector<std::string> names_;
  std::vector<std::uint32_t> machines_; ///< first worker of each worker's host
  std::map<meeting_point, std::shared_ptr<ring>> rings_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> cut_pairs_;
  std::map<std::uint64_t, training_state> checkpoints_; ///< by step
};

template <class Text>
void simulated_worker::log(Text text) const {
  world_.log([&] { return fmt::format("w{}: {}", rank_, text()); });
}

} // namespace dynamix::simulation
