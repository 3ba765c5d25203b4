#pragma once

/// Sets of items, a bit an item, so that the union over all members is an OR of words. An item is a fixed number of
/// floats: a row of an embedding, or a line of a larger tensor.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::exchange {

inline constexpr std::size_t item_word_bits = 64;

constexpr std::size_t item_words(std::size_t items) {
  return (items + item_word_bits - 1) / item_word_bits;
}

inline void set_item(std::span<std::uint64_t> words, std::uint32_t item) {
  words[item / item_word_bits] |= std::uint64_t{1} << (item % item_word_bits);
}
inline bool has_item(std::span<const std::uint64_t> words, std::uint32_t item) {
  return (words[item / item_word_bits] >> (item % item_word_bits) & 1U) != 0;
}

/// The numbers of the items in the set, ascending, those below `items` only.
std::vector<std::uint32_t> list_items(std::span<const std::uint64_t> words, std::size_t items);

/// The items of `item_floats` floats each that hold anything but +0, ascending: -0 counts, so that leaving out the
/// others changes no bit of a sum. `values` is a whole number of items.
std::vector<std::uint32_t> nonzero_items(std::span<const float> values, std::size_t item_floats);

} // namespace dynamix::exchange
