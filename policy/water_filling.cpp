#include "policy/water_filling.hpp"

#include "policy/bounded.hpp"

#include <algorithm>
#include <numeric>

namespace dynamix::policy {
namespace {

using batches = std::vector<std::uint32_t>;

constexpr int doublings_max = 100; ///< to 1e21 seconds: capacities that still fall short never reach the total
constexpr int halvings_max = 60;   ///< below the resolution of a double

std::uint64_t sum(const batches& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

/// Raises `low` towards `high` by `missing` samples, in proportion to the gaps between them and by largest remainders.
/// `low` is nowhere above `high`, and no more is missing than fits between them.
void fill_gaps(batches& low, const batches& high, std::uint64_t missing) {
  const auto gaps = sum(high) - sum(low);
  if (gaps == 0)
    return;
  std::vector<std::uint64_t> remainders(low.size());
  std::vector<std::size_t> order(low.size());
  auto left = missing;
  for (std::size_t i = 0; i < low.size(); ++i) {
    const auto share = missing * (high[i] - low[i]); // below 2^32 * 2^20
    low[i] += static_cast<std::uint32_t>(share / gaps);
    left -= share / gaps;
    remainders[i] = share % gaps;
    order[i] = i;
  }
  // Fewer are left than there are remainders above 0, and a gap with a remainder is not full.
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; i < left; ++i)
    ++low[order[i]];
}

} // namespace

batches water_fill(std::uint64_t total, const capacities& within, std::uint32_t lowest,
                   std::span<const std::uint32_t> highest) {
  batches low(highest.size(), lowest);
  batches high(highest.begin(), highest.end());
  for (auto& most : high)
    most = std::max(most, lowest);
  total = std::clamp(total, sum(low), sum(high));
  double shorter = 0;
  double longer = shortest_step_seconds;
  batches fitting(highest.size()); // of the step time that is looked at
  // Between what is too little and what is enough, whatever the capacities say: so `low` is never above `high`.
  const auto look = [&](double seconds) {
    within(seconds, fitting);
    for (std::size_t i = 0; i < fitting.size(); ++i)
      fitting[i] = std::clamp(fitting[i], low[i], high[i]);
  };
  look(longer);
  for (int i = 0; i < doublings_max && sum(fitting) < total; ++i) {
    low.swap(fitting);
    shorter = longer;
    longer *= 2;
    look(longer);
  }
  if (sum(fitting) >= total) {
    high.swap(fitting);
  } else { // a worker is infinitely slow, and the others are full
    low.swap(fitting);
    shorter = longer;
  }
  for (int i = 0; i < halvings_max && sum(high) > total; ++i) {
    const auto middle = shorter + (longer - shorter) / 2;
    look(middle);
    if (sum(fitting) >= total) {
      high.swap(fitting);
      longer = middle;
    } else {
      low.swap(fitting);
      shorter = middle;
    }
  }
  fill_gaps(low, high, total - sum(low));
  return low;
}

batches water_fill(std::uint64_t total, std::span<const capacity> workers, std::uint32_t lowest,
                   std::span<const std::uint32_t> highest) {
  return water_fill(
      total,
      [&](double seconds, batches& fitting) {
        for (std::size_t i = 0; i < workers.size(); ++i)
          fitting[i] = whole_samples(workers[i](seconds), lowest, highest[i]);
      },
      lowest, highest);
}

batches split_in_proportion(std::uint64_t total, std::span<const double> weights, std::uint32_t lowest,
                            std::span<const std::uint32_t> highest) {
  std::vector<capacity> workers;
  for (const auto weight : weights)
    workers.emplace_back([weight](double seconds) { return weight * seconds; });
  return water_fill(total, workers, lowest, highest);
}

} // namespace dynamix::policy
