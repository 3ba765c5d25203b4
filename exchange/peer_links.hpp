#pragma once

/// How the members of groups reach each other over links, on which hosts prove who they are (`links/pump.hpp`). So
/// nothing that a stranger sends reaches the collective.

#include "links/connection.hpp"
#include "links/pump.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::links {
class door;
} // namespace dynamix::links

namespace dynamix::exchange {

struct place;

/// How many time-outs of a request a connection for gradients lasts whose peer takes nothing. A cut wire ends it, long
/// before a step is missed; a process that stands still, or a link that fails over, for a few seconds does not.
constexpr std::uint32_t silent_peer_requests = 2;

/// Where a member's host is reached.
struct member_host {
  std::string name; ///< what its certificate proves
  std::string address;
  bool announced = false; ///< not known before: what the member itself announces
};

/// One process's links to all groups that it will be in. Thread-safe.
class peer_links : public std::enable_shared_from_this<peer_links> {
public:
  /// The others reach it at `address` and the port of `door`, which listens before a group is joined.
  /// `options.protocol` says whether gradients are encrypted (links::gradient_protocol, the same on all hosts).
  /// `hosts`: by rank. Null, with the reason, where it cannot.
  static std::shared_ptr<peer_links> start(links::pump_options options, std::shared_ptr<links::door> door,
                                           const std::string& address, std::vector<member_host> hosts,
                                           std::string& problem);
  peer_links(const peer_links&) = delete;
  peer_links& operator=(const peer_links&) = delete;

  /// What the others need to know of this process.
  std::vector<std::uint8_t> announcement() const;
  std::uint16_t port() const;

  using announcements = std::map<std::uint32_t, std::vector<std::uint8_t>>;
  /// A stream to each other member of the group of `own`, by position: this end of a pair within the process, whose
  /// other end a link carries to that member. The lower rank waits for the higher one's call; what it writes waits for
  /// it, too. `announced`: by all members, by rank. Empty, with the reason, where one of them has announced no port or
  /// is not reached, or there are no descriptors left.
  std::vector<links::descriptor> connect(const place& own, const announcements& announced, std::string& problem);

  /// Sends what was written last, and closes all. Nobody is reached any more.
  void end();

private:
  peer_links(std::shared_ptr<links::pump> pump, std::shared_ptr<links::door> door, std::vector<member_host> hosts);
  links::descriptor connect_to(std::uint32_t rank, const place& own, const announcements& announced,
                               std::string& problem);

  std::shared_ptr<links::pump> pump_;
  std::shared_ptr<links::door> door_;
  const std::vector<member_host> hosts_;
  member_host own_;
};

} // namespace dynamix::exchange
