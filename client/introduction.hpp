#pragma once

/// What every member tells the others once, before training, and what all of them make of it.

#include "client/lockstep.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace dynamix::client {

struct introduction {
  std::uint32_t version = 0; ///< of the library's numbers
  std::uint32_t position = 0;
  std::uint32_t members = 1;
  member_batch batch;
  std::uint64_t samples = 1;
  std::uint64_t seed = 0;
  bool shuffled = true;
  bool drop_last = false;
  messages::rate_rule rule = messages::rate_rule::constant;
  bool adaptive = false;
  std::uint32_t noise_interval = 5;
  std::uint32_t window_steps = 10;
  messages::balancing balances = messages::balancing::off;
  std::uint64_t shards = 0; ///< a hash of a stream's, and of their lengths; 0: samples have numbers
  // Of its agent.
  bool has_agent = false;
  std::uint32_t rank = 0;
  std::uint32_t workers = 0;
  std::uint64_t cluster_seed = 0;
  // Of its data loader, which may be another one when it comes back into a training.
  std::uint32_t ahead = 0;
  std::uint32_t lanes = 1;
};

inline constexpr std::uint32_t introduction_version = 6;
inline constexpr std::size_t introduction_columns = 24;
std::array<std::int64_t, introduction_columns> encode(const introduction& of);
introduction decode_introduction(std::span<const std::int64_t, introduction_columns> numbers);

/// Of all members by position: returns an empty string and what they begin with, a stream's shards aside, or why they
/// do not fit together. The seed is that of the first. The same on all members but for `begun.position`, which is
/// `position`.
std::string fit_together(std::span<const introduction> all, std::uint32_t position, lockstep_options& begun);

} // namespace dynamix::client
