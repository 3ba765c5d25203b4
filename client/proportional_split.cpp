#include "client/proportional_split.hpp"

#include <algorithm>
#include <numeric>

namespace dynamix::client {

std::vector<std::uint64_t> split_in_proportion(std::uint64_t total, std::span<const std::uint32_t> weights) {
  std::vector<std::uint64_t> parts(weights.size(), 0);
  const auto sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  if (sum == 0)
    return parts;
  std::uint64_t left = total;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    parts[i] = total * weights[i] / sum;
    left -= parts[i];
  }
  // Fewer than one a part is left, so each of the largest remainders gets one more.
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return total * weights[a] % sum > total * weights[b] % sum; });
  for (std::size_t i = 0; i < left; ++i)
    ++parts[order[i]];
  return parts;
}

std::vector<index_range> split_range(index_range whole, std::span<const std::uint32_t> weights) {
  std::vector<index_range> ranges;
  ranges.reserve(weights.size());
  auto first = whole.first;
  for (const auto count : split_in_proportion(whole.count, weights)) {
    ranges.push_back({first, count});
    first += count;
  }
  return ranges;
}

} // namespace dynamix::client
