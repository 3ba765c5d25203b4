#pragma once

#include "actors/decision_journal.hpp"
#include "actors/gather.hpp"
#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/membership.hpp"
#include "actors/tree_child.hpp"
#include "cluster/tree_plan.hpp"
#include "ledger/file.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::actors {

struct aggregator_options {
  cluster::cluster_file file;
  cluster::timeouts timeouts;
  std::shared_ptr<ledger::writer> run_ledger;
  std::shared_ptr<host_events> events;
  double ledger_origin_seconds = 0; ///< on the actor system's clock
  // Of a replicated arbitrator.
  std::shared_ptr<decision_journal> journal;                ///< null: what is decided holds at once
  std::shared_ptr<const replication::journal_state> before; ///< what the leader before left; null: nothing
  std::uint64_t voter = 1;                                  ///< this host's
  cluster::tree_plan plan;                                  ///< of a tree whose root this is; else without nodes

  bool tree() const { return !plan.nodes.empty(); }
};

/// The hub of all workers: takes them in, forms generations of them, gathers their reports for the arbitrator, hands
/// its decisions out. At the root of a tree it does so through its children, and joins their windows.
struct aggregator_state {
  static constexpr const char* name = "aggregator";

  aggregator_options options;
  std::optional<membership> members;
  std::optional<gather> windows;  ///< of the newest generation
  store_actor store;              ///< through which the newest generation meets
  store_actor store_before;       ///< of the generation before
  messages::placement newest;     ///< generation 0: none was formed here
  std::set<std::uint32_t> unsure; ///< ranks that may not have heard of it
  arbitrator_actor arbitrator;
  std::map<std::uint32_t, worker_actor> workers; ///< whose connections stand, by rank
  // Of a tree.
  std::vector<tree_child> children;
  std::map<std::uint32_t, std::string> routes;             ///< the child through which a worker is reached, by rank
  std::map<std::uint32_t, double> sent_home;               ///< when a worker was last sent to its own shard
  std::optional<message<messages::policy_version>> policy; ///< newest version
  std::vector<messages::farewell> farewells;
  std::set<std::pair<std::string, messages::welcome_verdict>> refused; ///< hellos that the ledger has told of, by host
  kept_actions kept;
  std::uint64_t term = 0;  ///< in force
  std::uint64_t terms = 0; ///< each arbitrator that serves here and each generation has one of its own
  bool stop_requested = false;
  bool ended = false;
};

aggregator_local::behavior_type aggregator(aggregator_local::stateful_pointer<aggregator_state> self,
                                           aggregator_options options);

} // namespace dynamix::actors
