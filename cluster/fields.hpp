#pragma once

/// The one table of a cluster file's fields: parsing, defaults, range checks, the digest, `check` and
/// docs/cluster-file.md all read it. Internal to the room.

#include "cluster/cluster_file.hpp"
#include "cluster/places.hpp"
#include "settings/field.hpp"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace dynamix::cluster {

using settings::number_text;
using settings::quoted;

// What fields of both tables may be.
inline constexpr double no_limit_seconds = 1e9;
inline constexpr double highest_batch = 1048576;
inline constexpr std::size_t workers_most = 4096; ///< messages::max_workers, which this room may not see
inline constexpr double workers_per_host_max = 256;
inline bool is_path(const std::string& text) {
  return settings::is_line(text, 4096);
}
inline constexpr settings::text_rule name_rule = {
    is_host_name, "a name of 1 to 64 letters, digits, '.', '_' and '-' that begins with a letter or digit"};
inline constexpr settings::text_rule optional_path_rule = {is_path, "a path of at most 4096 characters, or empty"};

/// A [[host]] as the file writes it: its slow-down at the start stands beside the later changes.
struct host_entry {
  cluster::host host;
  double compute_slowdown = 1;
  std::uint32_t count = 1; ///< of equal hosts, NAME-1 to NAME-count on consecutive ports
};
host_entry to_entry(const host& from);
/// The inverse: a slow-down other than 1 becomes the change at 0 s. `entry.host.emulate` holds the later ones only.
host from_entry(host_entry entry);

std::span<const settings::field<cluster_file>> file_fields(); ///< grouped by section, in the order of the document
std::span<const settings::field<host_entry>> host_fields();
std::span<const settings::field<emulation>> emulation_fields();

/// The checks that need more than one field. Appends to `errors`; what `broken` names is left out, so that one mistake
/// gives one message.
void validate(const cluster_file& file, const std::set<std::string>& broken, std::vector<file_error>& errors);

} // namespace dynamix::cluster
