/// The fields of [[host]] and [[host.emulate]].

#include "cluster/fields.hpp"
#include "settings/rows.hpp"

#include <algorithm>
#include <array>
#include <fmt/core.h>
#include <utility>

namespace dynamix::cluster {
namespace {

using settings::choice_row;
using settings::closed;
using settings::in;
using settings::number_row;
using settings::open_low;
using settings::presence;
using settings::text_row;

constexpr std::array<std::string_view, 3> role_names = {"worker", "arbitrator", "server"};
constexpr settings::text_rule address_rule = {is_address,
                                              "an IPv4 or IPv6 address or a host name that peers can connect to"};

constexpr auto entry_host = &host_entry::host;

const std::vector<settings::field<host_entry>> host_rows = {
    text_row("host", "name", in<entry_host, &host::name>, "Name of the host, unique in the file.", name_rule,
             presence::required),
    text_row("host", "address", in<entry_host, &host::address>, "Where peers reach it and where it listens.",
             address_rule),
    number_row("host", "port", in<entry_host, &host::port>,
               "Its one port, unique for its address: links of every kind, or without keys the gateway.",
               closed(1, 65535), presence::required),
    choice_row(
        "host", "roles", in<entry_host, &host::roles>,
        "What it does: it trains (worker), decides (arbitrator), or sums gradients without training (server). One host "
        "is "
        "the arbitrator, or 3 or 5 that arbitrator.replicas names; under stigmergic none need be: the first worker's "
        "host, "
        "or those 3 or 5, have that role then.",
        role_names),
    {"host", "replica_port", in<entry_host, &host::replica_port>,
     "Ignored: leave it out. Replicas of the arbitrator reach it at `port`; files of earlier runs have it.",
     closed(0, 65535)},
    {"host", "compute_slowdown", in<&host_entry::compute_slowdown>,
     "Emulates a slow host: computing takes this many times as long.", closed(1, 100)},
    {"host", "count", in<&host_entry::count>,
     "So many equal hosts: NAME-1, NAME-2, ... on this port and those that follow.", closed(1, 4096)},
    {"host", "workers", in<entry_host, &host::workers>,
     "With `training.trainer = \"client\"`: so many training processes join this host's agent, as workers NAME/0, "
     "NAME/1, ... that share its address and port; 0: one for each of `gpus`, or one.",
     closed(0, workers_per_host_max)},
    {.section = "host",
     .name = "gpus",
     .locate = in<entry_host, &host::gpus>,
     .doc =
         "The GPU of each of its workers, by the numbers that nvidia-smi shows; empty: the file gives none. With the "
         "built-in trainer one, on which the worker computes where training.device is \"auto\" or \"cuda\".",
     .allowed = closed(0, 1023),
     .entries = {.most = static_cast<std::size_t>(workers_per_host_max)}},
    {"host", "bind_cores", in<entry_host, &host::bind_cores>,
     "Gives each of several workers its part of the machine's cores, node by node of its memory; a training process "
     "that "
     "joins keeps to them."},
    {"host", "batch_highest", in<entry_host, &host::batch_highest>,
     "Largest batch that fits in its memory; 0 is batch.highest.", closed(0, highest_batch)},
    text_row("host", "preemption", in<entry_host, &host::preemption>,
             "What tells that the host's provider takes it back, upon which it leaves as on SIGTERM: a file that "
             "appears then, or \"command:COMMAND\", which the shell runs every five seconds and which exits with 0 "
             "then. A number that begins the file or the command's output, or stands alone on a line of it, is the "
             "seconds that are left. Empty: nothing does.",
             optional_path_rule),
    text_row("host", "profile", in<entry_host, &host::profile>,
             "Simulation: its device profile; empty is simulation.profile.", optional_path_rule),
    {"host", "bandwidth_mbit", in<entry_host, &host::bandwidth_mbit>,
     "Of its link in Mbit/s, for the simulator and for what `check` predicts; 0 is simulation.bandwidth_mbit.",
     closed(0, 1e7)},
    {"host", "join_at_seconds", in<entry_host, &host::join_at_seconds>, "Simulation: when it comes.",
     closed(0, no_limit_seconds)},
    {"host", "leave_at_seconds", in<entry_host, &host::leave_at_seconds>, "Simulation: when it is lost; 0: never.",
     closed(0, no_limit_seconds)},
};

const std::vector<settings::field<emulation>> emulation_rows = {
    number_row("host.emulate", "at_seconds", in<&emulation::at_seconds>,
               "Seconds of training from which on the change holds; later than the entry before.",
               open_low(no_limit_seconds), presence::required),
    number_row("host.emulate", "compute_slowdown", in<&emulation::compute_slowdown>,
               "The host's slow-down from then on.", closed(1, 100), presence::required),
};

} // namespace

std::vector<host> make_slots(const host& machine) {
  const auto count = std::min(machine.worker_count(), static_cast<std::size_t>(workers_per_host_max));
  if (count < 2 || !machine.has(role::worker))
    return {};
  auto slot = machine;
  slot.slots.clear();
  slot.roles = {role::worker};
  slot.workers = 1;
  std::vector<host> slots(count, slot);
  for (std::size_t i = 0; i < count; ++i) {
    slots[i].name = fmt::format("{}/{}", machine.name, i);
    slots[i].gpus.clear();
    if (i < machine.gpus.size())
      slots[i].gpus = {machine.gpus[i]};
  }
  return slots;
}

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
  entry.host.slots = make_slots(entry.host);
  return std::move(entry.host);
}

std::string_view to_string(role value) {
  return role_names.at(static_cast<std::size_t>(value));
}

} // namespace dynamix::cluster
