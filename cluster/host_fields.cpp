/// The fields of [[host]] and [[host.emulate]].

#include "cluster/fields.hpp"

#include <array>
#include <utility>

namespace dynamix::cluster {
namespace {

using settings::closed;
using settings::in;
using settings::open_low;
using settings::presence;

constexpr std::array<std::string_view, 3> role_names = {"worker", "arbitrator", "server"};
constexpr settings::text_rule address_rule = {is_address,
                                              "an IPv4 or IPv6 address or a host name that peers can connect to"};

constexpr auto host_of = &host_entry::host;

const std::vector<settings::field<host_entry>> host_rows = {
    {"host",
     "name",
     in<host_of, &host::name>,
     "Name of the host, unique in the file.",
     {},
     {},
     &name_rule,
     presence::required},
    {"host",
     "address",
     in<host_of, &host::address>,
     "Where peers reach it and where it listens.",
     {},
     {},
     &address_rule},
    {"host",
     "port",
     in<host_of, &host::port>,
     "Its one port, unique for its address: links of every kind, or without keys the gateway.",
     closed(1, 65535),
     {},
     nullptr,
     presence::required},
    {"host",
     "roles",
     in<host_of, &host::roles>,
     "What it does: it trains (worker), decides (arbitrator), or sums gradients without training (server). One host is "
     "the arbitrator, or 3 or 5 that arbitrator.replicas names; under stigmergic none need be: the first worker's "
     "host, "
     "or those 3 or 5, have that role then.",
     {},
     role_names},
    {"host", "replica_port", in<host_of, &host::replica_port>,
     "Without keys: port at which replicas of the arbitrator reach it; 0 is port + 1000.", closed(0, 65535)},
    {"host", "compute_slowdown", in<&host_entry::compute_slowdown>,
     "Emulates a slow host: computing takes this many times as long.", closed(1, 100)},
    {"host", "count", in<&host_entry::count>,
     "So many equal hosts: NAME-1, NAME-2, ... on this port and those that follow.", closed(1, 4096)},
    {"host", "batch_highest", in<host_of, &host::batch_highest>,
     "Most samples a step that its memory allows; 0 is batch.highest.", closed(0, highest_batch)},
    {"host",
     "profile",
     in<host_of, &host::profile>,
     "Simulation: its device profile; empty is simulation.profile.",
     {},
     {},
     &optional_path_rule},
    {"host", "bandwidth_mbit", in<host_of, &host::bandwidth_mbit>,
     "Of its link in Mbit/s, for the simulator and for what `check` predicts; 0 is simulation.bandwidth_mbit.",
     closed(0, 1e7)},
    {"host", "join_at_seconds", in<host_of, &host::join_at_seconds>, "Simulation: when it comes.",
     closed(0, no_limit_seconds)},
    {"host", "leave_at_seconds", in<host_of, &host::leave_at_seconds>, "Simulation: when it is lost; 0: never.",
     closed(0, no_limit_seconds)},
};

const std::vector<settings::field<emulation>> emulation_rows = {
    {"host.emulate",
     "at_seconds",
     in<&emulation::at_seconds>,
     "Seconds of training from which on the change holds; later than the entry before.",
     open_low(no_limit_seconds),
     {},
     nullptr,
     presence::required},
    {"host.emulate",
     "compute_slowdown",
     in<&emulation::compute_slowdown>,
     "The host's slow-down from then on.",
     closed(1, 100),
     {},
     nullptr,
     presence::required},
};

} // namespace

std::span<const settings::field<host_entry>> host_fields() {
  return host_rows;
}
std::span<const settings::field<emulation>> emulation_fields() {
  return emulation_rows;
}

host_entry to_entry(const host& from) {
  host_entry entry{from, 1};
  if (!from.emulate.empty() && from.emulate.front().at_seconds == 0) {
    entry.compute_slowdown = from.emulate.front().compute_slowdown;
    entry.host.emulate.erase(entry.host.emulate.begin());
  }
  return entry;
}

host from_entry(host_entry entry) {
  if (entry.compute_slowdown != 1)
    entry.host.emulate.insert(entry.host.emulate.begin(), {0, entry.compute_slowdown});
  return std::move(entry.host);
}

std::string_view to_string(role value) {
  return role_names.at(static_cast<std::size_t>(value));
}

} // namespace dynamix::cluster
