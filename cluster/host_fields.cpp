#include "cluster/field_rules.hpp"
#include "cluster/listen_address.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace dynamix::cluster {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, 2> role_names = {"worker", "arbitrator"};

const std::vector<field<host_entry>> all_host_fields = {
    {"host", "name", in_host<&host::name>, "Name of the host, unique in the file.", {}, {}, &name_rule, true},
    {"host", "address", in_host<&host::address>, "Where peers reach it and where it listens.", {}, {}, &address_rule},
    {"host",
     "port",
     in_host<&host::port>,
     "Port of its gateway, unique for its address.",
     closed(1, 65535),
     {},
     nullptr,
     true},
    {"host",
     "roles",
     in_host<&host::roles>,
     "What it does: worker, arbitrator or both. One host is the arbitrator, or 3 or 5 that arbitrator.replicas names.",
     {},
     role_names},
    {"host", "replica_port", in_host<&host::replica_port>,
     "Port at which replicas of the arbitrator reach it; 0 is port + 1000.", closed(0, 65535)},
    {"host", "compute_slowdown", [](host_entry& entry) -> target { return &entry.compute_slowdown; },
     "Emulates a slow host: computing takes this many times as long.", closed(1, 100)},
    {"host", "count", [](host_entry& entry) -> target { return &entry.count; },
     "So many equal hosts: NAME-1, NAME-2, ... on this port and those that follow.", closed(1, 4096)},
    {"host", "batch_highest", in_host<&host::batch_highest>,
     "Most samples a step that its memory allows; 0 is batch.highest.", closed(0, highest_batch)},
    {"host",
     "profile",
     in_host<&host::profile>,
     "Simulation: its device profile; empty is simulation.profile.",
     {},
     {},
     &optional_path_rule},
    {"host", "bandwidth_mbit", in_host<&host::bandwidth_mbit>,
     "Simulation: of its link in Mbit/s; 0 is simulation.bandwidth_mbit.", closed(0, 1e7)},
    {"host", "join_at_seconds", in_host<&host::join_at_seconds>, "Simulation: when it comes.",
     closed(0, no_limit_seconds)},
    {"host", "leave_at_seconds", in_host<&host::leave_at_seconds>, "Simulation: when it is lost; 0: never.",
     closed(0, no_limit_seconds)},
};

const std::vector<field<emulation>> all_emulation_fields = {
    {"host.emulate",
     "at_seconds",
     [](emulation& change) -> target { return &change.at_seconds; },
     "Seconds of training from which on the change holds; later than the entry before.",
     open_low(no_limit_seconds),
     {},
     nullptr,
     true},
    {"host.emulate",
     "compute_slowdown",
     [](emulation& change) -> target { return &change.compute_slowdown; },
     "The host's slow-down from then on.",
     closed(1, 100),
     {},
     nullptr,
     true},
};

} // namespace

bool is_name(const std::string& text) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= 64 && std::isalnum(static_cast<unsigned char>(text.front())) != 0 &&
         std::all_of(text.begin(), text.end(), fits);
}

// A terminal escape or a line break in a path would spoil every message that shows it.
bool is_path(const std::string& text) {
  return text.size() <= 4096 &&
         std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; });
}

bool is_filled_path(const std::string& text) {
  return !text.empty() && is_path(text);
}

bool is_listen(const std::string& text) {
  return text.empty() || parse_listen_address(text).has_value();
}

std::span<const field<host_entry>> host_fields() {
  return all_host_fields;
}
std::span<const field<emulation>> emulation_fields() {
  return all_emulation_fields;
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
