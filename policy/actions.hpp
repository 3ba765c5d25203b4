#pragma once

/// The discrete actions: what they do to a batch size, and how one is chosen from probabilities.

#include "cluster/cluster_file.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

namespace dynamix::policy {

struct applied_action {
  std::uint32_t batch = 0; ///< inside [lowest, highest]
  bool clamped = false;    ///< batch + change lay outside
};
/// Adds `change` to `batch` and clamps to the limits (DYNAMIX, action space).
applied_action apply_action(std::uint32_t batch, std::int32_t change, const cluster::batch& limits);

/// Draws an index with these probabilities (not empty; need not sum to exactly 1) by inverting their cumulative sum at
/// a uniform number made of the generator's upper 53 bits. The same generator state gives the same index on every
/// platform, and nothing of Torch's global generator is used.
std::size_t draw_action(std::span<const float> probabilities, std::mt19937_64& generator);
/// The most probable index, the lowest of equals.
std::size_t best_action(std::span<const float> probabilities);

/// What a generator is for: each purpose has its own stream of numbers from one seed.
enum class random_purpose : std::uint32_t { parameters = 1, actions = 2, minibatches = 3 };
std::mt19937_64 make_generator(std::uint64_t seed, random_purpose purpose);
/// A number in [0, limit), limit > 0. (std::uniform_int_distribution differs between standard libraries.)
std::uint64_t draw_below(std::uint64_t limit, std::mt19937_64& generator);

} // namespace dynamix::policy
