#include "policy/actions.hpp"

#include <algorithm>

namespace dynamix::policy {

applied_action apply_action(std::uint32_t batch, std::int32_t change, const cluster::batch& limits) {
  const std::int64_t wanted = std::int64_t{batch} + change;
  const auto given = std::clamp<std::int64_t>(wanted, limits.lowest, limits.highest);
  return {.batch = static_cast<std::uint32_t>(given), .clamped = given != wanted};
}

std::size_t draw_action(std::span<const float> probabilities, std::mt19937_64& generator) {
  double total = 0;
  for (const float probability : probabilities)
    total += probability;
  double rest = static_cast<double>(generator() >> 11) * 0x1p-53 * total;
  std::size_t last_possible = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0)
      continue;
    if (rest < probabilities[i])
      return i;
    rest -= probabilities[i];
    last_possible = i;
  }
  return last_possible; // rounding used up the sum
}

std::size_t best_action(std::span<const float> probabilities) {
  return static_cast<std::size_t>(std::ranges::max_element(probabilities) - probabilities.begin());
}

std::mt19937_64 make_generator(std::uint64_t seed, random_purpose purpose) {
  std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                         static_cast<std::uint32_t>(purpose)};
  return std::mt19937_64(sequence);
}

std::uint64_t draw_below(std::uint64_t limit, std::mt19937_64& generator) {
  // Numbers of the last, incomplete stretch would favour small results: draw again.
  const std::uint64_t stretch = std::mt19937_64::max() / limit * limit;
  std::uint64_t number = generator();
  while (number >= stretch)
    number = generator();
  return number % limit;
}

} // namespace dynamix::policy
