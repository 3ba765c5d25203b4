#pragma once

/// What other machines say of themselves, asked by ssh: their `doctor` and `profile`.

#include "cluster/cluster_file.hpp"
#include "node/launch/remote_host.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace dynamix::node {

struct probed_machine {
  std::string found;   ///< one line for a person; empty: it did not answer
  std::string problem; ///< why it did not, in one line
};

/// `said`: behind the mark of remote_host.hpp the JSON of `doctor`, an empty line, the JSON of `profile`, as far as
/// they came. `complained`: what stood on standard error. Neither is believed to be well formed.
probed_machine read_probe(const std::string& said, const std::string& complained);

/// Asks the machines of `hosts`, at most 64 at a time, each for at most two minutes. `answered` is told how many have
/// answered or will not.
std::vector<probed_machine> probe_machines(const remote_options& remote, const std::vector<cluster::host>& hosts,
                                           const std::function<void(std::size_t)>& answered);

/// Of the default route: that of IPv4 where there is one, else that of IPv6; empty: neither. `ipv4`, `ipv6`: what
/// /proc/net/route and /proc/net/ipv6_route say.
std::string default_route_interface(const std::string& ipv4, const std::string& ipv6);

} // namespace dynamix::node
