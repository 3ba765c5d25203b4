#pragma once

#include "actors/aggregator/root_role.hpp"
#include "actors/aggregator/shard_role.hpp"
#include "actors/interfaces.hpp"

#include <memory>
#include <variant>

namespace dynamix::actors {

struct hub_options {
  std::shared_ptr<const cluster::cluster_file> file;
  cluster::timeouts timeouts;
  std::variant<root_options, shard_options> role;
};

class hub_switchboard;

/// The middle of a cluster, or of a part of it: workers and hubs below talk to it, it gathers their windows for its
/// arbitrator and hands its decisions out. What it decides itself stands in its role; the actor translates between
/// messages and the role, and holds the handles.
struct hub_state {
  static constexpr const char* name = "hub";
  hub_state();
  ~hub_state();
  std::unique_ptr<hub_switchboard> links;
  std::unique_ptr<hub_role> role;
};

hub_actor::behavior_type hub(hub_actor::stateful_pointer<hub_state> self, hub_options options);

} // namespace dynamix::actors
