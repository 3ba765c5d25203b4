#pragma once

/// The actors of a host that holds an arbitrator of a tree: below the root a shard, or one above shards; on each of the
/// root's hosts, whichever leads, a shard without workers of its own, for those that reach no other.

#include "actors/host/host.hpp"
#include "actors/host/supervisor.hpp"
#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/network/worker_names.hpp"
#include "cluster/tree_plan.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dynamix::actors {

struct connector_options;
class control_network;

class tree_services {
public:
  tree_services(caf::actor_system& system, const host_options& options, std::shared_ptr<host_events> events,
                std::shared_ptr<worker_names> names);

  const cluster::tree_plan& plan() const { return plan_; }
  /// This host holds an arbitrator of a tree.
  bool here() const { return !plan_.central() && node_ < plan_.nodes.size(); }
  /// Or may come to be: one of its replicas.
  bool is_root() const { return here() && node_ == 0; }
  /// It takes workers in; else other arbitrators.
  bool takes_workers() const { return is_root() || plan_.nodes[node_].is_shard(); }

  /// For a rest_for_one supervisor: aggregator -> connector -> arbitrator. `parameters`: of the policy.
  std::vector<child_specification> children(const std::vector<std::uint8_t>& parameters);
  void serve_gateway(const gateway_local& gateway);
  void shut_down();

  /// How this host's worker looks for an arbitrator, in a tree or not.
  connector_options reach_of_worker() const;
  /// Over which this host's connectors reach others; before any of them is started.
  void use(std::shared_ptr<control_network> network) { network_ = std::move(network); }

private:
  connector_options reach(const std::vector<const cluster::host*>& hosts) const;
  std::vector<const cluster::host*> hosts_of(const std::vector<std::size_t>& nodes) const;
  caf::strong_actor_ptr start_shard();
  caf::strong_actor_ptr start_connector();
  void tell_gateway();

  caf::actor_system& system_;
  const host_options& options_;
  std::shared_ptr<host_events> events_;
  std::shared_ptr<worker_names> names_;
  cluster::timeouts timeouts_;
  cluster::tree_plan plan_;
  std::size_t node_;
  std::shared_ptr<control_network> network_;

  std::mutex mutex_; ///< supervisors restart children on their own threads
  aggregator_local shard_;
  connector_actor connector_;
  gateway_local gateway_;
};

} // namespace dynamix::actors
