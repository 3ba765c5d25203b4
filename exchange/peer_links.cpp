#include "exchange/peer_links.hpp"

#include "exchange/rendezvous.hpp"
#include "links/door.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace dynamix::exchange {
namespace {

constexpr std::chrono::milliseconds connect_time{4000}; ///< as in the clear (meeting.cpp)
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

std::vector<links::descriptor> peer_links::connect(const place& own, const announcements& announced,
                                                   std::string& problem) {
  std::vector<links::descriptor> made(own.members.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (own.members[i] == own.rank)
      continue;
    made[i] = connect_to(own.members[i], own, announced, problem);
    if (!made[i])
      return {};
  }
  return made;
}

links::descriptor peer_links::connect_to(std::uint32_t rank, const place& own, const announcements& announced,
                                         std::string& problem) {
  if (rank >= hosts_.size()) {
    problem = fmt::format("the cluster has no worker of rank {}", rank);
    return {};
  }
  auto host = hosts_[rank];
  std::uint16_t port = 0;
  const auto said = announced.find(rank);
  if (said == announced.end() || !read_announcement(said->second, host, port)) {
    problem = fmt::format("host \"{}\" has announced no port for links: it may have no keys", hosts_[rank].name);
    return {};
  }
  auto [here, carried] = links::make_plain_pair();
  if (!here) {
    problem = "there is no descriptor left";
    return {};
  }
  const links::carriage wanted{.host = host.name, .purpose = own.store_prefix};
  if (own.rank < rank) {
    pump_->carry_from(wanted, carried.release());
    return std::move(here);
  }
  problem = pump_->carry_to(wanted, host.address, port, connect_time, carried.release());
  if (problem.empty())
    return std::move(here);
  problem = fmt::format("host \"{}\" at {}:{} is not reached: {}", host.name, host.address, port, problem);
  return {};
}

void peer_links::end() {
  pump_->end();
}

} // namespace dynamix::exchange
