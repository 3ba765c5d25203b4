#include "exchange/item_bits.hpp"

#include <algorithm>
#include <bit>

namespace dynamix::exchange {

std::vector<std::uint32_t> list_items(std::span<const std::uint64_t> words, std::size_t items) {
  std::vector<std::uint32_t> list;
  for (std::size_t word = 0; word < item_words(items); ++word)
    for (auto left = words[word]; left != 0; left &= left - 1) {
      const auto item = word * item_word_bits + static_cast<std::size_t>(std::countr_zero(left));
      if (item < items)
        list.push_back(static_cast<std::uint32_t>(item));
    }
  return list;
}

std::vector<std::uint32_t> nonzero_items(std::span<const float> values, std::size_t item_floats) {
  std::vector<std::uint32_t> list;
  for (std::size_t item = 0; (item + 1) * item_floats <= values.size(); ++item) {
    const auto own = values.subspan(item * item_floats, item_floats);
    if (std::ranges::any_of(own, [](float value) { return std::bit_cast<std::uint32_t>(value) != 0; }))
      list.push_back(static_cast<std::uint32_t>(item));
  }
  return list;
}

} // namespace dynamix::exchange
