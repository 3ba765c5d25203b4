#pragma once

/// The one table of a cluster file's fields: parsing, defaults, range checks, the digest, `check` and
/// docs/cluster-file.md all read it. Internal to the room, but that the simulator's own files borrow its ranges and
/// texts.

#include "cluster/cluster_file.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace dynamix::cluster {

/// An enumeration seen as its number; `field::choices` names the numbers in order.
struct enumeration {
  std::uint8_t* value;
};

/// Where a field's value lives.
using target = std::variant<double*, std::uint16_t*, std::uint32_t*, std::uint64_t*, bool*, std::string*, enumeration,
                            std::vector<std::int32_t>*, std::vector<role>*, std::vector<telemetry_source>*,
                            std::vector<std::string>*>;

/// The numbers that a field, or each element of its list, may take.
struct range {
  double low = 0;
  double high = 0;
  bool low_open = false;
  bool high_open = false;

  bool contains(double value) const;
};
std::string to_string(const range& allowed);

/// What a string may be, and how a person is told.
struct text_rule {
  bool (*accepts)(const std::string& text);
  std::string_view words;
};

template <class Record>
struct field {
  std::string_view section;
  std::string_view name;
  target (*locate)(Record& record);
  std::string_view doc;
  range allowed = {};
  std::span<const std::string_view> choices = {}; ///< of an enumeration, a list of them, or a string
  const text_rule* rule = nullptr;                ///< of a string
  bool required = false;

  std::string label() const { return std::string(section) + "." + std::string(name); }
};

/// A [[host]] as the file writes it: its slow-down at the start stands beside the later changes.
struct host_entry {
  cluster::host host;
  double compute_slowdown = 1;
  std::uint32_t count = 1; ///< of equal hosts, NAME-1 to NAME-count on consecutive ports
};
host_entry to_entry(const host& from);
/// The inverse: a slow-down other than 1 becomes the change at 0 s. `entry.host.emulate` holds the later ones only.
host from_entry(host_entry entry);

std::span<const field<cluster_file>> file_fields(); ///< grouped by section, in the order of the document
std::span<const field<host_entry>> host_fields();
std::span<const field<emulation>> emulation_fields();

/// "a number in (0, 10]", "one of "sgd", "adam"" ...
template <class Record>
std::string allowed_text(const field<Record>& of);
/// The value as TOML writes it.
template <class Record>
std::string value_text(const field<Record>& of, const Record& record);

/// Shortest decimal text that reads back as the same number.
std::string number_text(double value);
/// A string as a TOML basic string.
std::string quoted(std::string_view text);
/// The names joined as `"a", "b"`.
std::string quoted_list(std::span<const std::string_view> names);

bool is_address(const std::string& text);

/// The fields that could not be read, by the keys of `cluster_file::positions`.
class broken_fields {
public:
  void insert(const std::string& key) { keys_.push_back(key); }
  bool has(std::string_view key) const;
  /// True when a host's field of this name is broken on any host.
  bool has_host_field(std::string_view name) const;

private:
  std::vector<std::string> keys_;
};

/// The checks that need more than one field. Appends to `errors`; what `broken` names is left out, so that one mistake
/// gives one message.
void validate(const cluster_file& file, const broken_fields& broken, std::vector<file_error>& errors);

} // namespace dynamix::cluster
