#pragma once

#include "actors/aggregator/root_role.hpp"
#include "actors/aggregator/shard_role.hpp"
#include "actors/interfaces.hpp"

#include <memory>
#include <variant>

namespace dynamix::actors {

struct aggregator_options {
  std::shared_ptr<const cluster::cluster_file> file;
  cluster::timeouts timeouts;
  std::variant<root_options, shard_options> role;
};

class aggregator_switchboard;

/// The middle of a cluster, or of a part of it: workers and aggregators below talk to it, it gathers their windows for
/// its arbitrator and hands its decisions out. What it decides itself stands in its role; the actor translates between
/// messages and the role, and holds the handles.
struct aggregator_state {
  static constexpr const char* name = actor_name::aggregator;
  aggregator_state();
  ~aggregator_state();
  std::unique_ptr<aggregator_switchboard> links;
  std::unique_ptr<aggregator_role> role;
};

aggregator_local::behavior_type aggregator(aggregator_local::stateful_pointer<aggregator_state> self,
                                           aggregator_options options);

} // namespace dynamix::actors
