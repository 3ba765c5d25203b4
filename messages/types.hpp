#pragma once

/// The values that actors exchange, as plain structs: an aggregate for each block of messages/fields.def, with that
/// block's fields as members, in its order, and equality. `messages/codec.hpp` turns each message into a Cap'n Proto
/// frame and back, and refuses a frame whose fields are out of range, so a decoded struct always satisfies its rules.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::messages {

/// The protocols that this release speaks. The newest rises with every change of a message's meaning that an older
/// release would misread. 4: a hello names the oldest and the newest, and a welcome the one that is spoken. 5: workers
/// exchange other blocks with their gradients (rows of compressed sums, in a ring and through servers, sketches' cells,
/// the last word to servers). 6: gradients travel in frames of our own (exchange/mesh.hpp). Nobody negotiates these, so
/// it is the oldest, too.
inline constexpr std::uint32_t oldest_protocol = 6;
inline constexpr std::uint32_t newest_protocol = 6;

// Limits on everything that a peer can send.
inline constexpr std::uint32_t max_workers = 4096;
inline constexpr std::uint32_t max_batch = 1U << 20;
inline constexpr std::uint64_t max_global_batch = std::uint64_t{max_workers} * max_batch;
inline constexpr std::uint32_t max_window_steps = 10'000;
inline constexpr std::uint32_t max_cores = 1U << 16;
inline constexpr std::uint32_t max_heartbeat_interval_ms = 3'600'000;
inline constexpr std::uint32_t max_name_length = 128;  ///< bytes
inline constexpr std::uint32_t max_text_length = 4096; ///< bytes
inline constexpr std::uint32_t max_state_size = 64;
inline constexpr std::uint32_t max_actions = 64;
inline constexpr std::uint32_t max_trajectory_length = 4096;
inline constexpr std::uint32_t max_store_keys = 4096;
inline constexpr std::uint32_t max_key_length = 1024; ///< bytes
inline constexpr std::uint32_t max_store_value_bytes = 4096;
inline constexpr std::uint32_t max_policy_bytes = 16U << 20;
inline constexpr std::uint32_t max_connections = 1U << 24;
inline constexpr std::uint32_t max_protocol = 1U << 16;
inline constexpr std::uint32_t max_steps_a_window = 1U << 30; ///< a window may go on for an hour of any steps
inline constexpr double max_seconds = 86'400;                 ///< of what happens within a window: a day
inline constexpr double max_run_seconds = 3.2e9;              ///< of a run: a century
inline constexpr double max_bytes_per_second = 1e15;
inline constexpr double max_segments = 1e9;
inline constexpr double max_ratio = 1U << 22; ///< of what many threads of a host do at once: Linux has no more
inline constexpr double max_change = 1e6;     ///< of a worker's speed, either way
inline constexpr std::uint32_t max_shared_cpus = 65'535;
inline constexpr double max_shared_demand = 1.0 * max_shared_cpus * max_workers;
inline constexpr double max_surprise = 64;    ///< of a logarithm to base 2, either way
inline constexpr double max_magnitude = 1e30; ///< of losses, norms and their like, which have no bound of their own
inline constexpr double max_sum = 1e40;       ///< of products of these over all workers
/// Of generations, terms, windows and steps: a double holds it exactly, and what is counted on from it does not wrap.
inline constexpr std::uint64_t max_counter = 1ULL << 53;
inline constexpr float log_probability_max = 1e-6F; ///< rounding may push a probability above 1

// clang-format off
#define ENUM(type, Schema) enum class type : std::uint8_t {
#define VALUE(name, number) name = number,
#define END_ENUM };
#define STRUCT(type, Schema) struct type {
#define FIELD(type, name, Name, rule, ...) type name{__VA_ARGS__};
#define END(type) friend bool operator==(const type&, const type&) = default; };
// clang-format on
#include "messages/fields.def"

/// By term, then by window.
constexpr std::strong_ordering operator<=>(decision_key one, decision_key other) {
  const auto terms = one.term <=> other.term;
  return terms != 0 ? terms : one.window <=> other.window;
}

/// What a process speaks, both ends included.
struct protocol_range {
  std::uint32_t oldest = oldest_protocol;
  std::uint32_t newest = newest_protocol;
};

/// What the sender of a hello speaks. One before protocol 4 names a single one.
template <class Hello>
constexpr protocol_range protocols_of(const Hello& said) {
  return {said.protocol, said.newest_protocol > said.protocol ? said.newest_protocol : said.protocol};
}

/// The newest that both speak; 0: there is none.
constexpr std::uint32_t common_protocol(protocol_range peer, protocol_range own = {}) {
  const auto newest = peer.newest < own.newest ? peer.newest : own.newest;
  return newest >= peer.oldest && newest >= own.oldest ? newest : 0;
}

/// "protocol 3", "protocols 3 to 4"
inline std::string to_text(protocol_range range) {
  const auto newest = std::to_string(range.newest);
  return range.oldest == range.newest ? "protocol " + newest
                                      : "protocols " + std::to_string(range.oldest) + " to " + newest;
}

template <class Enum>
struct named_value {
  Enum value;
  std::string_view name;
};

/// The enumerators of one of the enums above, by rising number.
template <class Enum>
struct names_of;

// clang-format off
#define ENUM(type, Schema) \
  template <> struct names_of<type> { using self = type; static constexpr named_value<type> table[] = {
#define VALUE(name, number) {self::name, #name},
#define END_ENUM }; };
// clang-format on
#include "messages/fields.def"

/// The enumerator's name, as the ledger has it; empty for a number that is none.
template <class Enum>
constexpr std::string_view name_of(Enum value) {
  for (const auto& one : names_of<Enum>::table)
    if (one.value == value)
      return one.name;
  return {};
}

template <class Enum>
constexpr std::optional<Enum> from_name(std::string_view name) {
  for (const auto& one : names_of<Enum>::table)
    if (one.name == name)
      return one.value;
  return std::nullopt;
}

} // namespace dynamix::messages
