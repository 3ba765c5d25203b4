#pragma once

#include "actors/interfaces.hpp"
#include "links/connection.hpp"
#include "session/reconnection.hpp"

#include <caf/io/all.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::actors {

/// Why who accepted the connection is no host of a cluster without keys, which greets at once; empty: it may be one.
/// Blocks for at most the time-out. CAF would take memory for whatever length the first bytes claim.
std::string doubt_greeting(int socket, std::uint32_t timeout_ms);

/// A host with an arbitrator.
struct connector_target {
  std::string host;
  std::string address; ///< empty: this very host, whose gateway is told by a message
  std::uint16_t port = 0;
};

class control_network;

struct connector_options {
  std::vector<connector_target> targets; ///< at least one; tried in turn
  std::uint32_t probe_timeout_ms = 1000;
  double first_seconds = 0; ///< until it was connected once it tries the first target alone, for so long
  std::shared_ptr<control_network> network = {}; ///< over which hosts are reached; null: in the clear
};

/// Keeps a connection to one gateway, for all workers of a host:
///
///     attempting --TCP probe answered--> connecting --gateway reached--> connected
///         ^            |no                    |no                          |DOWN, or redirected
///         |            v                      v                            v
///         +-- the next target, after a delay <+<---------------------------+
///
/// Runs detached, since connecting blocks. In the clear the probe comes first because one connect to a black hole would
/// block every other connect of the process for minutes, and because CAF believes whatever answers. CAF names
/// connections by descriptor and cleans up late, so a probe that closes right before another connect could take that
/// one's place with it into the grave: it is kept open until the next attempt or the connection's end.
struct connector_state {
  static constexpr const char* name = "connector";
  connector_options options;
  std::vector<connected_actor> owners;
  gateway_actor local;   ///< of this very host; null where it has none, or not yet
  gateway_actor reached; ///< null while not connected
  session::reconnection next;
  std::size_t attempts = 0;
  links::descriptor probe;
  std::string problem;      ///< the last one that was logged
  bool attempt_due = false; ///< one is on its way
};

connector_actor::behavior_type connector(connector_actor::stateful_pointer<connector_state> self,
                                         connector_options options, std::vector<connected_actor> owners);

} // namespace dynamix::actors
