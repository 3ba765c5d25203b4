#pragma once

/// How a process publishes its gateway and reaches those of others over links on which hosts prove who they are
/// (`links/pump.hpp`), and say only what they may (`actors/network/authority.hpp`). CAF gets the plain ends of links
/// whose peer is proven, and never a socket of the network.

#include "actors/interfaces.hpp"
#include "actors/network/authority.hpp"
#include "actors/network/connector.hpp"
#include "links/pump.hpp"

#include <caf/io/all.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace dynamix::actors {

class refused_messages;

class control_network {
public:
  /// Without `rules` a proven host may say anything. One a system.
  control_network(caf::actor_system& system, std::shared_ptr<links::pump> pump, std::shared_ptr<const authority> rules);
  ~control_network();
  control_network(const control_network&) = delete;
  control_network& operator=(const control_network&) = delete;

  /// Takes the links that the host's door leads to the pump, in place of a gateway that was published before. `port`:
  /// the door's, by which CAF knows it. Returns an empty string, or why it cannot.
  std::string publish(const gateway_actor& gateway, std::uint16_t port);
  void unpublish(const gateway_actor& gateway, std::uint16_t port);

  /// The gateway of `target.host`, which must prove that it is that host; null, with the reason, where it cannot be
  /// reached. Blocks, for `timeout_ms` and a handshake's time at most, and nobody but the caller.
  gateway_actor reach(const connector_target& target, std::uint32_t timeout_ms, std::string& problem,
                      links::connect_failure* kind = nullptr);

  /// Frames of proven hosts that were not passed on to CAF, since their sender may not say that.
  std::uint64_t refused() const;

  /// Before the actor system ends. Links that are open end with it.
  void shut_down();

private:
  class called_links;

  caf::actor_system& system_;
  std::shared_ptr<links::pump> pump_;
  std::shared_ptr<called_links> called_;
  std::shared_ptr<refused_messages> refused_;
  caf::io::middleman_actor middleman_;
};

} // namespace dynamix::actors
