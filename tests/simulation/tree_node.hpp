#pragma once

/// What a host holds of a tree of arbitrators: the real shard and its arbitrator under their real supervisor, a gateway
/// unless it is the root's host, and a modelled connector that runs the real choice of whom to reach.

#include "actors/aggregator/aggregator.hpp"
#include "actors/arbitrator/arbitrator.hpp"
#include "actors/host/supervisor.hpp"
#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/network/gateway.hpp"
#include "session/reconnection.hpp"
#include "tests/simulation/network.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace dynamix::simulation {

class tree_node final : public connection_owner {
public:
  /// `index` in the plan: the root's is a shard for those that reach no other.
  tree_node(simulation& world, std::size_t index) : world_(world), index_(index) {}

  /// With the process that holds it.
  void start();
  void crash();
  void kill_shard();
  void kill_arbitrator();
  void kill_gateway();

  std::uint32_t host() const;
  actors::gateway_actor gateway() const { return caf::actor_cast<actors::gateway_actor>(gateway_); }
  bool reachable() const { return alive_ && gateway_stands_; }
  /// It knows that the run is over.
  bool ended() const { return alive_ && events_->take().arbitrator.has_value(); }
  /// A supervisor has given up.
  bool failed() const { return alive_ && events_->take().failure.has_value(); }
  /// The root's gateway, when it stands.
  void serve(const actors::gateway_local& gateway);

  // Its connector learns all it needs from the gateway's proxy.
  void connection_lost(const connection_ptr&) override {}
  void actor_gone(const connection_ptr&, const caf::actor_addr&) override {}

private:
  void kill(const caf::actor& one, const char* what);
  caf::strong_actor_ptr start_gateway();
  caf::strong_actor_ptr start_shard();
  caf::strong_actor_ptr start_connector();
  caf::strong_actor_ptr start_arbitrator();
  void tell_gateway();

  simulation& world_;
  std::size_t index_;
  bool alive_ = false;
  bool gateway_stands_ = false;
  std::shared_ptr<actors::host_events> events_;
  actors::gateway_local gateway_;
  actors::aggregator_local shard_;
  actors::connector_actor connector_;
  actors::arbitrator_actor judge_;
  std::vector<caf::actor> supervisors_;
};

} // namespace dynamix::simulation
