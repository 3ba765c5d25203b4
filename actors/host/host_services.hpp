#pragma once

/// Spawns the actors of one host under their supervisors, and tells each the handles it needs when another is
/// restarted.

#include "actors/arbitrator/leadership.hpp"
#include "actors/host/host.hpp"
#include "actors/host/host_links.hpp"
#include "actors/host/supervisor.hpp"
#include "actors/host/tree_services.hpp"
#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/network/control_network.hpp"
#include "actors/network/worker_names.hpp"
#include "ledger/file.hpp"
#include "policy/parameter_archive.hpp"
#include "session/leave.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
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
  bool has_worker() const { return has_worker_; }
  /// One that ends with the run: the only one, the root of a tree, or one below it.
  bool has_arbitrator() const { return has_arbitrator_ || tree_.here(); }

private:
  /// One of the host's workers.
  struct served_worker {
    const cluster::host* host = nullptr;       ///< the host, or one of its slots
    std::shared_ptr<std::atomic<int>> process; ///< that trains for it; null: this one
    worker_local actor;
  };

  std::string prepare_arbitration();
  std::string read_policy(std::string& source);
  std::string start_workers();
  std::string start_worker(served_worker& worker, std::size_t slot, const std::vector<std::uint32_t>& cores);
  std::vector<std::vector<std::uint32_t>> cores_of_workers() const;
  caf::strong_actor_ptr start_telemetry(const served_worker& worker);
  void start_arbitration();
  std::string join_replicas();
  void lead(const leader_start& start);
  void follow(const std::string& leader);
  void leave_arbitration();
  caf::strong_actor_ptr start_gateway();
  std::string publish_gateway();
  caf::strong_actor_ptr start_connector();
  caf::actor supervise(supervision_options options, std::vector<child_specification> children);
  caf::strong_actor_ptr start_aggregator();
  caf::strong_actor_ptr start_arbitrator();
  void serve_aggregator();
  void tell(ledger::event_kind event, const std::string& text);

  caf::actor_system& system_;
  host_options options_;
  std::shared_ptr<host_events> events_;
  cluster::timeouts timeouts_;
  const cluster::host& host_;
  bool has_worker_;
  bool has_arbitrator_;
  std::shared_ptr<worker_names> names_;
  tree_services tree_;
  std::shared_ptr<control_network> network_;         ///< null: in the clear, as those below
  std::shared_ptr<links::pump> raft_links_;          ///< to the other voters
  std::shared_ptr<exchange::peer_links> peer_links_; ///< to the other workers
  std::shared_ptr<ledger::writer> ledger_;
  double ledger_origin_seconds_ = 0;
  std::shared_ptr<policy::parameter_archive> archive_;
  bool learns_ = false;
  std::vector<caf::actor> supervisors_;
  leadership leadership_;
  bool told_following_ = false; ///< in the ledger

  // What follows is guarded: supervisors restart children, and the voter makes leaders, on threads of their own.
  std::mutex mutex_;
  caf::actor arbitration_; ///< the supervisor of what only a leader runs
  leader_start led_from_;
  std::vector<std::uint8_t> saved_policy_;
  gateway_local gateway_;
  std::vector<served_worker> workers_;
  connector_actor connector_;
  learner_actor learner_;
  aggregator_local aggregator_;
  std::optional<std::string> leader_; ///< another host of the replicas; empty: nobody is known to lead
};

} // namespace dynamix::actors
