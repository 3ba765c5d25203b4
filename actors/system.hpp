#pragma once

#include "actors/interfaces.hpp"
#include "cluster/cluster_file.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>

namespace dynamix::actors {

/// The actor system's settings for one host: every message type, the middleman with its heartbeat, few scheduler
/// threads
/// ("sharing" is the policy that stays quick with many processes per machine). Reads no configuration file.
class system_config : public caf::actor_system_config {
public:
  explicit system_config(const cluster::timeouts& timeouts);
};

} // namespace dynamix::actors
