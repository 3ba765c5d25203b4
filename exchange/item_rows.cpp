#include "exchange/item_rows.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>

namespace dynamix::exchange {

namespace {

constexpr std::size_t number_words(std::size_t capacity) {
  return (capacity + 1) / 2;
}

} // namespace

std::size_t item_row_words(std::size_t capacity, std::size_t item_floats) {
  return 1 + number_words(capacity) + (capacity * item_floats + 1) / 2;
}

std::vector<std::int64_t> encode_items(std::uint64_t total, std::span<const std::uint32_t> items,
                                       std::span<const float> gradients, std::size_t capacity,
                                       std::size_t item_floats) {
  std::vector<std::int64_t> row(item_row_words(capacity, item_floats));
  row[0] = static_cast<std::int64_t>(total);
  if (items.empty())
    return row;
  std::memcpy(row.data() + 1, items.data(), items.size_bytes());
  auto* to = reinterpret_cast<std::byte*>(row.data() + 1 + number_words(capacity));
  for (const auto item : items) {
    const auto values = std::as_bytes(gradients.subspan(item * item_floats, item_floats));
    std::memcpy(to, values.data(), values.size());
    to += values.size();
  }
  return row;
}

std::string decode_items(std::span<const std::int64_t> row, const item_row_shape& shape, item_row& into) {
  into = {};
  if (row.size() != item_row_words(shape.capacity, shape.item_floats))
    return fmt::format("a row of {} words; it must have {}", row.size(),
                       item_row_words(shape.capacity, shape.item_floats));
  if (row[0] < 0 || static_cast<std::uint64_t>(row[0]) > shape.items)
    return fmt::format("a peer announces {} items of a tensor that has {}", row[0], shape.items);
  into.total = static_cast<std::uint64_t>(row[0]);
  if (into.total <= shape.earlier)
    return {};
  const auto count = std::min(static_cast<std::size_t>(into.total) - shape.earlier, shape.capacity);
  into.items.resize(count);
  into.values.resize(count * shape.item_floats);
  if (count == 0)
    return {};
  std::memcpy(into.items.data(), row.data() + 1, count * sizeof(std::uint32_t));
  std::memcpy(into.values.data(), row.data() + 1 + number_words(shape.capacity), into.values.size() * sizeof(float));
  if (into.items.back() >= shape.items ||
      std::ranges::adjacent_find(into.items, std::greater_equal{}) != into.items.end())
    return fmt::format("a peer's item numbers do not ascend below {}", shape.items);
  return {};
}

} // namespace dynamix::exchange
