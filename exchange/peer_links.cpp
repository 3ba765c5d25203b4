#include "exchange/peer_links.hpp"

#include "exchange/rendezvous.hpp"
#include "links/door.hpp"
#include "links/inner_listener.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace dynamix::exchange {
namespace {

constexpr std::chrono::milliseconds connect_time{5000};
/// The collective has connected already; this is for a thread that was held up.
constexpr std::chrono::milliseconds take_time{1000};
constexpr std::size_t port_bytes = 2;
constexpr std::size_t announcement_bytes_max = 512;

/// A port and, for those who do not know it, "NAME ADDRESS". False where it is none.
bool read_announcement(const std::vector<std::uint8_t>& said, member_host& host, std::uint16_t& port) {
  if (said.size() < port_bytes || said.size() > announcement_bytes_max)
    return false;
  port = static_cast<std::uint16_t>(said[0] << 8 | said[1]);
  if (!host.announced)
    return true;
  const std::string text(said.begin() + port_bytes, said.end());
  const auto space = text.find(' ');
  host.name = text.substr(0, space);
  host.address = space == std::string::npos ? "" : text.substr(space + 1);
  return !host.name.empty() && !host.address.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return c >= ' ' && c < 0x7f; });
}

} // namespace

std::shared_ptr<peer_links> peer_links::start(links::pump_options options, std::shared_ptr<links::door> door,
                                              const std::string& address, std::vector<member_host> hosts,
                                              std::string& problem) {
  const member_host own{.name = options.host, .address = address};
  std::shared_ptr<links::pump> pump = links::pump::start(std::move(options), problem);
  if (!pump)
    return nullptr;
  door->lead_to(pump);
  const std::shared_ptr<peer_links> made(new peer_links(std::move(pump), std::move(door), std::move(hosts)));
  made->own_ = own;
  return made;
}

peer_links::peer_links(std::shared_ptr<links::pump> pump, std::shared_ptr<links::door> door,
                       std::vector<member_host> hosts)
    : pump_(std::move(pump)), door_(std::move(door)), hosts_(std::move(hosts)) {}

std::uint16_t peer_links::port() const {
  return door_->port();
}

std::vector<std::uint8_t> peer_links::announcement() const {
  const auto own = port();
  std::string said = {static_cast<char>(own >> 8), static_cast<char>(own & 0xff)};
  if (std::ranges::find(hosts_, own_.name, &member_host::name) == hosts_.end()) // the others do not know it
    said += fmt::format("{} {}", own_.name, own_.address);
  return {said.begin(), said.end()};
}

std::unique_ptr<peer_links::ends> peer_links::open(const place& own, const announcements& announced,
                                                   std::string& problem) {
  std::unique_ptr<ends> made(new ends(shared_from_this()));
  made->own_ = own.rank;
  made->purpose_ = own.store_prefix;
  for (const auto rank : own.members) {
    if (rank == own.rank)
      continue;
    const auto said = announced.find(rank);
    ends::peer peer;
    if (rank < hosts_.size())
      peer.host = hosts_[rank];
    if (rank >= hosts_.size())
      problem = fmt::format("the cluster has no worker of rank {}", rank);
    else if (said == announced.end() || !read_announcement(said->second, peer.host, peer.port))
      problem = fmt::format("host \"{}\" has announced no port for links: it may have no keys", hosts_[rank].name);
    else
      peer.listener = links::inner_listener::open(static_cast<std::uint16_t>(rank), problem);
    if (!peer.listener)
      return nullptr;
    made->peers_[rank] = std::move(peer);
  }
  return made;
}

void peer_links::end() {
  pump_->end();
}

peer_links::ends::ends(std::shared_ptr<peer_links> links) : links_(std::move(links)) {}

peer_links::ends::~ends() = default;

std::uint32_t peer_links::ends::address(std::uint32_t rank) const {
  return peers_.at(rank).listener->address();
}

std::uint16_t peer_links::ends::port(std::uint32_t rank) const {
  return peers_.at(rank).listener->port();
}

std::string peer_links::ends::carry() {
  std::string problem;
  for (auto& [rank, peer] : peers_) {
    const auto& host = peer.host;
    const int plain = std::exchange(peer.listener, nullptr)->take(take_time, problem);
    if (plain < 0)
      return fmt::format("no connection within this process for host \"{}\": {}", host.name, problem);
    const links::carriage wanted{.host = host.name, .purpose = purpose_};
    if (own_ < rank) {
      links_->pump_->carry_from(wanted, plain);
      continue;
    }
    problem = links_->pump_->carry_to(wanted, host.address, peer.port, connect_time, plain);
    if (!problem.empty())
      return fmt::format("host \"{}\" at {}:{} is not reached: {}", host.name, host.address, peer.port, problem);
  }
  return "";
}

} // namespace dynamix::exchange
