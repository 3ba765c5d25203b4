#pragma once

#include "actors/interfaces.hpp"

#include <caf/all.hpp>

namespace dynamix::actors::testing {

/// An actor system whose jobs and whose time are the test's.
class simulation_config : public caf::actor_system_config {
public:
  simulation_config() {
    add_message_types<caf::id_block::dynamix_messages>();
    add_message_types<caf::id_block::dynamix_actors>();
    set("scheduler.policy", caf::atom("testing"));
  }
};

} // namespace dynamix::actors::testing
