#pragma once

/// How the members of groups reach each other over links, on which hosts prove who they are (`links/pump.hpp`): each
/// member of a pair connects to an end within its own process, and what goes in there comes out of the other's. So
/// nothing that a stranger sends reaches the collective.

#include "links/pump.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::links {
class door;
class inner_listener;
} // namespace dynamix::links

namespace dynamix::exchange {

struct place;

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

  /// The ends of one group's connections. To be used by one thread at a time.
  class ends {
  public:
    ~ends();
    /// Where this process connects for member `rank`: IPv4, in host order.
    std::uint32_t address(std::uint32_t rank) const;
    std::uint16_t port(std::uint32_t rank) const;
    /// To be called once this process has connected to each of them: links carry the connections on. The lower rank
    /// waits for the higher one's call. Returns an empty string, or what went wrong.
    std::string carry();

  private:
    friend class peer_links;
    explicit ends(std::shared_ptr<peer_links> links);
    std::shared_ptr<peer_links> links_;
    std::uint32_t own_ = 0;
    std::string purpose_;
    struct peer {
      std::unique_ptr<links::inner_listener> listener;
      member_host host;
      std::uint16_t port = 0; ///< that its host has announced
    };
    std::map<std::uint32_t, peer> peers_; ///< by rank
  };
  using announcements = std::map<std::uint32_t, std::vector<std::uint8_t>>;
  /// `announced`: by all members, by rank. Null, with the reason, where one of them has announced no port, or there are
  /// no descriptors left.
  std::unique_ptr<ends> open(const place& own, const announcements& announced, std::string& problem);

  /// Sends what was written last, and closes all. Nobody is reached any more.
  void end();

private:
  peer_links(std::shared_ptr<links::pump> pump, std::shared_ptr<links::door> door, std::vector<member_host> hosts);

  std::shared_ptr<links::pump> pump_;
  std::shared_ptr<links::door> door_;
  const std::vector<member_host> hosts_;
  member_host own_;
};

} // namespace dynamix::exchange
