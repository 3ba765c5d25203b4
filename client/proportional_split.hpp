#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::client {

/// Elements [first, first + count) of something that is dealt out.
struct index_range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  friend bool operator==(const index_range&, const index_range&) = default;
};

/// Splits `total` into whole parts in proportion to `weights` by the method of largest remainders (Hamilton); of equal
/// remainders the lower position wins. The parts add up to `total`; a weight of 0 gets 0. All weights 0: all parts 0.
/// No part exceeds its weight when `total` is at most the sum of the weights. Weights and `total` below 2^31 each.
std::vector<std::uint64_t> split_in_proportion(std::uint64_t total, std::span<const std::uint32_t> weights);

/// The same split as ranges that follow each other from `first` on.
std::vector<index_range> split_range(index_range whole, std::span<const std::uint32_t> weights);

} // namespace dynamix::client
