#pragma once

/// Spawns the actors of one host under their supervisors, and tells each the handles it needs when another is
/// restarted.

#include "actors/host/arbitration_services.hpp"
#include "actors/host/host.hpp"
#include "actors/host/host_links.hpp"
#include "actors/host/supervisor.hpp"
#include "actors/host/tree_services.hpp"
#include "actors/host/worker_services.hpp"
#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/network/control_network.hpp"
#include "session/leave.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::actors {

/// The tree of a host:
///
///     one_for_one   gateway
///     one_for_one   a telemetry for each worker, and one connector for all
///     rest_for_one  ppo_learner -> aggregator -> arbitrator; of a replicated one only on the host that leads
///     rest_for_one  aggregator -> connector -> arbitrator, on a host of a tree of arbitrators
///     no restarts   worker, or several: the loss of one ends the host
class host_services {
public:
  /// `links`: over which hosts are reached and reach this one; empty: in the clear.
  host_services(caf::actor_system& system, const host_options& options, std::shared_ptr<host_events> events,
                const host_links& links);

  /// Opens the ledger, reads the policy, spawns everything. An error message if something that must be there is not.
  std::string start();
  /// Asks for an end of training at the next agreement of the workers.
  void stop();
  /// Asks for an end of this host's part; the others go on.
  void leave();
  session::host_roles roles() const;
  /// Where this host's replica leads: tells the other replicas that the run is over.
  void tell_end(const part_outcome& how);
  /// Whether all supervisors of this host answer within `patience`, which it waits for.
  bool supervision_answers(std::chrono::milliseconds patience);
  /// Ends all actors of this host.
  void shut_down();
  bool has_worker() const { return workers_.has_value(); }
  /// One that ends with the run: the only one, the root of a tree, or one below it.
  bool has_arbitrator() const { return arbitration_ || tree_.here(); }

private:
  caf::strong_actor_ptr start_gateway();
  std::string publish_gateway();
  caf::actor supervise(supervision_options options, std::vector<child_specification> children);

  caf::actor_system& system_;
  const host_options options_;
  std::shared_ptr<host_events> events_;
  const cluster::host& host_;
  std::shared_ptr<worker_names> names_;
  tree_services tree_;
  std::shared_ptr<control_network> network_;        ///< null: in the clear
  std::optional<arbitration_services> arbitration_; ///< of the only arbitrator, a replica, or the root of a tree
  std::optional<worker_services> workers_;
  std::vector<caf::actor> supervisors_;

  std::mutex mutex_; ///< supervisors restart children on threads of their own
  gateway_local gateway_;
};

} // namespace dynamix::actors
