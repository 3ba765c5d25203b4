#pragma once

/// A host's part in the replicated arbitrator: its voter, and the arbitration that it runs while it leads.

#include "actors/arbitrator/decision_journal.hpp"
#include "cluster/cluster_file.hpp"
#include "links/pump.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace dynamix::actors {

/// What a new leader goes on from.
struct leader_start {
  std::shared_ptr<decision_journal> journal;
  std::shared_ptr<const replication::journal_state> state;
  std::uint64_t raft_term = 0; ///< has one leader at most
};

struct leadership_options {
  const cluster::cluster_file* file = nullptr; ///< with replicas; outlives the leadership
  std::string host;
  std::string directory;                          ///< of the voter's files
  std::shared_ptr<links::pump> links;             ///< to the other voters
  std::function<void(const leader_start&)> lead;  ///< this host decides from now on
  std::function<void(const std::string&)> follow; ///< another does, or nobody (empty): its name
};

class control_network;
class leadership_watch;

/// `lead` and `follow` come on the thread of one actor, each only after a change.
class leadership {
public:
  /// Starts the voter. An error message if it cannot.
  std::string start(caf::actor_system& system, leadership_options options);
  void stop(std::uint32_t bound_ms);
  /// Tells the other replicas' hosts that the run is over, each at most for so long.
  static void tell_end(caf::actor_system& system, const std::shared_ptr<control_network>& network,
                       const cluster::cluster_file& file, const messages::farewell& said,
                       std::chrono::milliseconds patience);

  /// A voter's number is its host's position in the file, from 1.
  static std::uint64_t voter_of(const cluster::cluster_file& file, const std::string& host);

private:
  std::shared_ptr<replication::replica> voter_;
  std::shared_ptr<links::pump> links_;
  caf::actor watch_;
};

} // namespace dynamix::actors
