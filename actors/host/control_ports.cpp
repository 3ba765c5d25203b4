#include "actors/host/control_ports.hpp"

#include "cluster/listen_address.hpp"
#include "cluster/places.hpp"

namespace dynamix::actors {

std::vector<std::uint16_t> control_ports(const host_options& options) {
  const auto& file = *options.file;
  std::vector<std::uint16_t> ports;
  for (const auto& host : file.hosts)
    if (!cluster::is_place(host))
      ports.push_back(host.port);
  for (const auto& [host, place] : options.reach)
    ports.push_back(place.second);
  if (const auto page = cluster::parse_listen_address(file.dashboard.listen))
    ports.push_back(page->port);
  return ports;
}

} // namespace dynamix::actors
