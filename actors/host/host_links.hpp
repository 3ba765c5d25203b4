#pragma once

/// The links of one host with keys: who may open which.

#include "actors/host/host.hpp"
#include "exchange/peer_links.hpp"
#include "links/door.hpp"
#include "links/pump.hpp"

#include <memory>
#include <string>

namespace dynamix::actors {

/// A pump for each kind of link, so that gradients hold up no control message, and one door to all of them. Null: this
/// host has no such links, or no keys.
struct host_links {
  std::shared_ptr<links::door> door;
  std::shared_ptr<links::pump> control;
  std::shared_ptr<links::pump> raft;
  std::shared_ptr<exchange::peer_links> gradients;
};

/// Who may connect to a host, and to speak what, is decided by what it is: workers call arbitrators, which call each
/// other; replicas' voters call each other; workers' collectives call those of lower rank. All at the host's port; a
/// guest's, whom only collectives call, is any that is free. Returns an empty string, or why its keys are
/// not to be used or it cannot listen. Starts nothing for a host without keys.
std::string start_links(const host_options& options, host_links& links);

/// What was written last is sent.
void end_links(const host_links& links);

} // namespace dynamix::actors
