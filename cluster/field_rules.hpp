#pragma once

/// What the tables of fields are written with: rules for texts, ranges, and locators. Internal to the room.

#include "cluster/fields.hpp"

#include <string>
#include <type_traits>

namespace dynamix::cluster {

inline constexpr double no_limit_seconds = 1e9;
inline constexpr double highest_batch = 1048576;

bool is_name(const std::string& text);
/// At most 4096 characters; a terminal escape or a line break in a path would spoil every message that shows it.
bool is_path(const std::string& text);
bool is_filled_path(const std::string& text);

/// As parse_listen_address takes it, or empty.
bool is_listen(const std::string& text);

inline constexpr text_rule name_rule = {
    is_name, "a name of 1 to 64 letters, digits, '.', '_' and '-' that begins with a letter or digit"};
inline constexpr text_rule address_rule = {is_address,
                                           "an IPv4 or IPv6 address or a host name that peers can connect to"};
inline constexpr text_rule listen_rule = {
    is_listen, "an address and a port such as \"127.0.0.1:8080\" or \"[::1]:8080\", or empty"};
inline constexpr text_rule path_rule = {is_filled_path, "a path of 1 to 4096 characters"};
inline constexpr text_rule optional_path_rule = {is_path, "a path of at most 4096 characters, or empty"};

constexpr range open_low(double high) {
  return {0, high, true, false};
}
constexpr range closed(double low, double high) {
  return {low, high, false, false};
}

template <class T>
target refer(T& value) {
  if constexpr (std::is_enum_v<T>)
    return enumeration{reinterpret_cast<std::uint8_t*>(&value)}; // every enumeration of the file is a std::uint8_t
  else
    return &value;
}

/// The locators: of the file itself, of a member of one of its sections, of a host.
template <auto Member>
target top(cluster_file& file) {
  return refer(file.*Member);
}
template <auto Section, auto Member>
target in(cluster_file& file) {
  return refer(file.*Section.*Member);
}
template <auto Member>
target in_host(host_entry& entry) {
  return refer(entry.host.*Member);
}

/// The section [simulation], which only the simulator reads.
std::span<const field<cluster_file>> simulation_fields();

} // namespace dynamix::cluster
