/// From TOML to a cluster file, by the table of fields.

#include "cluster/fields.hpp"
#include "cluster/places.hpp"
#include "settings/toml_reader.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace dynamix::cluster {
namespace {

constexpr const char* noun = "cluster file";
constexpr std::size_t file_bytes_max = 8U << 20; // thousands of hosts with every field written out
constexpr std::size_t hosts_max = 8192;          // 4096 workers, and those who decide for them
constexpr std::size_t emulations_max = 1000;

constexpr settings::retired_field retired[] = {
    {"arbitrator.reflex",
     "write balance = \"on\" for reflex = true, or \"off\"; \"auto\" is the default",
     {"false", "auto"}},
    {"arbitrator.surprise", "leave it out; with balance = \"auto\" or \"on\" workers react within a step", {"false"}},
    {"arbitrator.window_shortest_seconds", "leave it out; a window has window_steps steps", {"0"}},
    {"arbitrator.window_longest_seconds", "leave it out; a window has window_steps steps", {"0"}},
};

/// Reads one document into a cluster file.
class document_reader {
public:
  document_reader(settings::toml_reader& reader, cluster_file& file) : reader_(reader), file_(file) {}

  void read() {
    const auto sections = settings::sections_of(file_fields());
    auto known = sections;
    known.push_back("host");
    reader_.retire(retired);
    reader_.allow(known);
    for (const auto section : sections)
      reader_.section(section, file_fields(), file_);
    for (const auto& table : reader_.tables("host", hosts_max))
      read_host(table);
  }

private:
  void read_host(settings::toml_reader::table table) {
    const auto key = fmt::format("host[{}]", file_.hosts.size());
    host_entry entry;
    reader_.read(table, key, "host", host_fields(), entry, {"emulate"});
    auto& changes = entry.host.emulate;
    for (const auto& change : reader_.tables(table, "emulate", key + ".emulate", "host.emulate", emulations_max)) {
      const auto place = fmt::format("{}.emulate[{}]", key, changes.size());
      reader_.read(change, place, "host.emulate", emulation_fields(), changes.emplace_back());
    }
    add_hosts(key, std::move(entry));
  }

  /// One host, or `count` equal ones with numbered names and ports; each finds its places at the entry's.
  void add_hosts(const std::string& key, host_entry entry) {
    const std::size_t first = file_.hosts.size();
    if (first + entry.count > hosts_max || entry.host.port + entry.count - 1 > 65535) {
      reader_.distrust(key + ".count");
      reader_.complain(key + ".count", fmt::format("host.count is {}; there may be {} hosts, and ports end at 65535",
                                                   entry.count, hosts_max));
      entry.count = 1;
    }
    if (const auto last = fmt::format("{}-{}", entry.host.name, entry.count);
        entry.count > 1 && is_host_name(entry.host.name) && !is_host_name(last)) {
      reader_.distrust(key + ".name");
      reader_.complain(key + ".name", fmt::format("host.count makes the name \"{}\" of {} characters; there may be 64",
                                                  last, last.size()));
      entry.count = 1;
    }
    const auto workers = entry.host.worker_count();
    if (workers > 1 && entry.count * workers > workers_most - std::min(several_, workers_most)) {
      const auto field = key + (entry.host.workers > 0 ? ".workers" : ".gpus");
      reader_.distrust(field);
      reader_.complain(field, fmt::format("{} hosts of {} workers are too many; a cluster has {} workers at most",
                                          entry.count, workers, workers_most));
      entry.host.workers = 1;
      entry.host.gpus.clear();
    } else if (workers > 1) {
      several_ += entry.count * workers;
    }
    auto& positions = reader_.positions();
    settings::position_map places;
    for (const auto& [field, place] : positions)
      if (entry.count > 1 && field.starts_with(key))
        places.emplace(field.substr(key.size()), place);
    for (std::uint32_t i = 0; i < entry.count; ++i) {
      auto one = entry;
      if (entry.count > 1) {
        one.host.name += fmt::format("-{}", i + 1);
        one.host.port = static_cast<std::uint16_t>(entry.host.port + i);
        for (const auto& [field, place] : places)
          positions[fmt::format("host[{}]{}", first + i, field)] = place;
      }
      file_.hosts.push_back(from_entry(std::move(one)));
    }
  }

  settings::toml_reader& reader_;
  cluster_file& file_;
  std::size_t several_ = 0; ///< workers of hosts with several, so far
};

/// Under `stigmergic` nobody decides, so no host needs to be the arbitrator: the hosts that `arbitrator.replicas`
/// names, or else the first worker's, keep membership and ledger. What the file gives a role, it keeps.
void appoint_keepers(cluster_file& file) {
  if (file.arbitrator.policy != policy_kind::stigmergic || !file.arbitrators().empty())
    return;
  const auto& named = file.arbitrator.replicas;
  const auto keeps = [&](const host& each) {
    return each.has(role::worker) && (named.empty() || std::ranges::find(named, each.name) != named.end());
  };
  for (auto at = std::ranges::find_if(file.hosts, keeps); at != file.hosts.end();
       at = named.empty() ? file.hosts.end() : std::find_if(at + 1, file.hosts.end(), keeps))
    at->roles.push_back(role::arbitrator);
}

parse_result parse(settings::toml_reader reader) {
  parse_result result;
  result.file.path = reader.path();
  if (reader.readable()) {
    document_reader(reader, result.file).read();
    result.file.positions = std::move(reader.positions());
    appoint_keepers(result.file);
    validate(result.file, reader.broken(), reader.errors());
  }
  result.errors = reader.finish();
  return result;
}

} // namespace

parse_result parse_cluster_text(const std::string& text, const std::string& path) {
  return parse({noun, path, text});
}

parse_result read_cluster_file(const std::string& path) {
  return parse(settings::toml_reader::open(noun, path, file_bytes_max));
}

} // namespace dynamix::cluster
