#pragma once

/// Items with their numbers as rows of words, all members' of one size, as a gather takes them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dynamix::exchange {

/// Some of a member's items: their numbers, ascending, and their floats one after the other.
struct item_row {
  std::uint64_t total = 0; ///< items that the member has; more than fit into one row follow in a second one
  std::vector<std::uint32_t> items;
  std::vector<float> values;
};

/// Words of a row with room for `capacity` items.
std::size_t item_row_words(std::size_t capacity, std::size_t item_floats);

/// `items`, at most `capacity`, from `gradients`, where item i starts at i * item_floats; `total` goes with them.
std::vector<std::int64_t> encode_items(std::uint64_t total, std::span<const std::uint32_t> items,
                                       std::span<const float> gradients, std::size_t capacity, std::size_t item_floats);

/// What of a tensor a row may hold, and which part of a member's items it brings.
struct item_row_shape {
  std::size_t items = 0; ///< of the tensor
  std::size_t item_floats = 0;
  std::size_t capacity = 0; ///< of the row
  std::size_t earlier = 0;  ///< of the member's items that an earlier row brought
};

/// Reads a row that a peer sent, of item_row_words words. Returns an empty string, or what is wrong with it: more items
/// than the tensor has, a number beyond it, or numbers that do not ascend.
std::string decode_items(std::span<const std::int64_t> row, const item_row_shape& shape, item_row& into);

} // namespace dynamix::exchange
