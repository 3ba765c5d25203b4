#include "exchange/sketch.hpp"

#include "storage/splitmix64.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dynamix::exchange {

namespace {

/// Factor of two by which a step's largest value may exceed the last one's and still fit.
constexpr int headroom_bits = 3;

constexpr std::size_t sketched_items_min = 256;

/// What an item's values are in units of the scale. False when one does not fit, and `words` is of no use then.
bool to_units(std::span<const float> values, const sketch_scale& scale, std::span<std::uint64_t> words) {
  const double units = std::ldexp(1.0, -scale.unit);
  const double limit = std::ldexp(1.0, scale.bits);
  bool fit = true; // without a branch a value, since nearly all fit
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double whole = values[i] * units;        // exact: a product with a power of two within double's range
    const bool in_range = std::abs(whole) < limit; // false for NaN, too
    const auto word = static_cast<std::int64_t>(in_range ? whole : 0);
    fit = fit && in_range && static_cast<double>(word) == whole;
    words[i] = static_cast<std::uint64_t>(word);
  }
  return fit;
}

std::uint32_t scaled(std::uint64_t hash, std::uint32_t bound) {
  return static_cast<std::uint32_t>(((hash & 0xffffffffU) * bound) >> 32U);
}

} // namespace

unsigned largest_exponent(std::span<const float> values) {
  unsigned largest = 0;
  for (const auto value : values) {
    const auto exponent = (std::bit_cast<std::uint32_t>(value) >> 23U) & 0xffU;
    largest = std::max(largest, exponent == 0xffU ? 0U : exponent);
  }
  return largest;
}

sketch_scale scale_for(unsigned exponent, std::uint32_t members) {
  const int bits = 62 - static_cast<int>(std::bit_width(members - 1U));
  // A float with this exponent field lies below 2^(exponent - 126).
  const int top = static_cast<int>(exponent) - 126 + headroom_bits;
  return {.unit = std::max(-149, top - bits), .bits = bits};
}

std::size_t sketch_cells(std::size_t items) {
  if (items < sketched_items_min)
    return 0;
  return (items * 135 / 100 + 64 + 2) / 3 * 3;
}

/// A bijection of the triples of numbers below a third of the cells, by rounds that each shift one of the three by a
/// hash of the other two: so no two items of a tensor of that many share all three cells, which would never peel. They
/// are what keeps most sketches of independent hashes from peeling.
item_cells cells_of(std::uint32_t item, std::uint64_t salt, std::size_t cells) {
  const auto third = static_cast<std::uint32_t>(cells / 3);
  const auto key = storage::splitmix64::finalise(salt);
  const auto shifted = [&](std::uint32_t value, std::uint64_t round, std::uint64_t one, std::uint64_t other) {
    const auto hash =
        storage::splitmix64::finalise((key + round * storage::splitmix64::increment) ^ (one << 32U | other));
    const auto sum = value + scaled(hash, third);
    return sum < third ? sum : sum - third;
  };
  auto first = item % third;
  auto second = item / third % third;
  auto last = item / third / third % third;
  second = shifted(second, 1, first, last);
  last = shifted(last, 2, first, second);
  first = shifted(first, 3, second, last);
  return {{first, third + second, 2 * third + last}};
}

bool add_to_sketch(std::span<std::uint64_t> table, const item_cells& at, std::span<const float> values,
                   const sketch_scale& scale) {
  thread_local std::vector<std::uint64_t> words;
  words.resize(values.size());
  if (!to_units(values, scale, words))
    return false;
  for (const auto cell : at.at) {
    auto* to = table.data() + cell * words.size();
    for (std::size_t i = 0; i < words.size(); ++i)
      to[i] += words[i];
  }
  return true;
}

peeling plan_peeling(std::span<const std::uint32_t> items, std::uint64_t salt, std::size_t cells) {
  struct cell_state {
    std::uint32_t items = 0;
    std::uint32_t places = 0; ///< of the items in it, combined by exclusive or: the last one's when one is left
  };
  std::vector<cell_state> table(cells);
  for (std::uint32_t place = 0; place < items.size(); ++place)
    for (const auto cell : cells_of(items[place], salt, cells).at) {
      ++table[cell].items;
      table[cell].places ^= place;
    }
  std::vector<std::uint32_t> single;
  for (std::uint32_t cell = 0; cell < cells; ++cell)
    if (table[cell].items == 1)
      single.push_back(cell);
  peeling plan;
  plan.steps.reserve(items.size());
  std::vector<bool> peeled(items.size());
  while (!single.empty()) {
    const auto cell = single.back();
    single.pop_back();
    if (table[cell].items != 1)
      continue;
    const auto place = table[cell].places;
    plan.steps.push_back({place, cell});
    peeled[place] = true;
    for (const auto other : cells_of(items[place], salt, cells).at) {
      table[other].places ^= place;
      if (--table[other].items == 1)
        single.push_back(other);
    }
  }
  if (plan.steps.size() < items.size())
    for (std::uint32_t place = 0; place < items.size(); ++place)
      if (!peeled[place])
        plan.left.push_back(place);
  return plan;
}

void round_sums(std::span<const std::uint64_t> words, const sketch_scale& scale, std::span<float> values) {
  // Of the two steps only the first rounds: no bit of a float lies below 2^-149, and the unit is no smaller.
  const auto unit = std::ldexp(1.0F, scale.unit);
  for (std::size_t i = 0; i < words.size(); ++i)
    values[i] = static_cast<float>(static_cast<std::int64_t>(words[i])) * unit;
}

} // namespace dynamix::exchange
