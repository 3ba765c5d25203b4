#pragma once

/// The links of one host with keys: who may open which.

#include "actors/host.hpp"
#include "exchange/peer_links.hpp"
#include "links/pump.hpp"

#include <memory>
#include <string>

namespace dynamix::actors {

/// A pump for each kind of link, so that gradients hold up no control message. Null: this host has no such links, or
/// no keys.
struct host_links {
  std::shared_ptr<links::pump> control;
  std::shared_ptr<links::pump> raft;
  std::shared_ptr<exchange::peer_links> gradients;
};

/// Who may connect to a host is decided by what it is: workers call arbitrators, which call each other; replicas'
/// voters call each other; workers' collectives call those of lower rank. Returns an empty string, or why its keys are
/// not to be used or it cannot listen. Starts nothing for a host without keys.
std::string start_links(const host_options& options, host_links& links);

/// What was written last is sent.
void end_links(const host_links& links);

} // namespace dynamix::actors
