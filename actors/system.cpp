#include "actors/system.hpp"

#include <chrono>

namespace dynamix::actors {

system_config::system_config(const cluster::timeouts& timeouts) {
  add_message_types<caf::id_block::dynamix_messages>();
  add_message_types<caf::id_block::dynamix_actors>();
  load<caf::io::middleman>();
  set("scheduler.policy", caf::atom("sharing"));
  set("scheduler.max-threads", 2);
  set("middleman.heartbeat-interval", caf::timespan(std::chrono::milliseconds(timeouts.heartbeat_interval_ms)));
  set("middleman.connection-timeout", caf::timespan(std::chrono::milliseconds(timeouts.connection_timeout_ms)));
}

} // namespace dynamix::actors
