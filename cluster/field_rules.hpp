#pragma once

/// What the tables of fields are written with: rules for texts, ranges, and locators. Internal to the room.

#include "cluster/fields.hpp"

#include <span>
#include <string>

namespace dynamix::cluster {

using settings::closed;
using settings::in;
using settings::open_low;
using settings::presence;
using settings::text_rule;

inline constexpr double no_limit_seconds = 1e9;
inline constexpr double highest_batch = 1048576;

bool is_name(const std::string& text);
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

/// The section [simulation], which only the simulator reads.
std::span<const settings::field<cluster_file>> simulation_fields();

} // namespace dynamix::cluster
