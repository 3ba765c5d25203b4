// Damaged rows of items and damaged sketches: a row is refused or stays within its tensor, and a sketch peels without
// leaving its table. Meant to run with AddressSanitizer and UndefinedBehaviorSanitizer; DYNAMIX_FUZZ_ITERATIONS and
// DYNAMIX_FUZZ_SEED as for frames.

#include "exchange/item_bits.hpp"
#include "exchange/item_rows.hpp"
#include "exchange/sketch.hpp"
#include "tests/fuzz/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace dynamix::exchange {
namespace {

using fuzz::default_iterations;
using fuzz::setting;

class damage {
public:
  explicit damage(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

  template <typename Word>
  void change(std::vector<Word>& words) {
    constexpr std::uint64_t poison[] = {0, ~std::uint64_t{0}, 0x8000000000000000, 0x7fffffffffffffff,
                                        0x7f8000007fc00000};
    for (auto changes = 1 + below(3); changes > 0 && !words.empty(); --changes) {
      auto& word = words[below(words.size())];
      switch (below(4)) {
      case 0:
        word ^= static_cast<Word>(std::uint64_t{1} << below(64));
        break;
      case 1:
        word = static_cast<Word>(poison[below(5)]);
        break;
      case 2:
        std::swap(word, words[below(words.size())]);
        break;
      case 3:
        if (below(8) == 0)
          words.resize(below(words.size()));
        else
          word = static_cast<Word>(random_());
        break;
      }
    }
  }

private:
  std::mt19937_64 random_;
};

TEST(ItemRowMutation, EveryDamagedRowIsRefusedOrStaysWithinItsTensor) {
  const auto iterations = setting("DYNAMIX_FUZZ_ITERATIONS", default_iterations);
  const auto seed = setting("DYNAMIX_FUZZ_SEED", 20261122);
  SCOPED_TRACE("DYNAMIX_FUZZ_SEED=" + std::to_string(seed));
  damage source(seed);
  constexpr item_row_shape shape{.items = 40, .item_floats = 3, .capacity = 7, .earlier = 2};
  const std::vector<float> gradients(shape.items * shape.item_floats, 1.5F);
  std::uint64_t accepted = 0;
  for (std::uint64_t i = 0; i < iterations; ++i) {
    std::vector<std::uint32_t> items;
    for (std::uint32_t item = 0; item < shape.items && items.size() < shape.capacity; ++item)
      if (source.below(4) == 0)
        items.push_back(item);
    auto row = encode_items(items.size() + shape.earlier, items, gradients, shape.capacity, shape.item_floats);
    source.change(row);
    item_row read;
    if (!decode_items(row, shape, read).empty())
      continue;
    ++accepted;
    ASSERT_LE(read.items.size(), shape.capacity);
    ASSERT_EQ(read.values.size(), read.items.size() * shape.item_floats);
    ASSERT_TRUE(std::ranges::is_sorted(read.items));
    ASSERT_TRUE(read.items.empty() || read.items.back() < shape.items) << "iteration " << i;
  }
  EXPECT_GT(accepted, iterations / 10);
  EXPECT_LT(accepted, iterations - iterations / 10);
}

TEST(SketchMutation, ADamagedSketchOrIndexPeelsWithinItsTable) {
  const auto iterations = setting("DYNAMIX_FUZZ_ITERATIONS", default_iterations) / 100;
  damage source(setting("DYNAMIX_FUZZ_SEED", 20261122));
  constexpr std::size_t items = 600;
  constexpr std::size_t floats = 2;
  const auto cells = sketch_cells(300);
  const auto scale = scale_for(127, 4);
  for (std::uint64_t i = 0; i < iterations; ++i) {
    std::vector<std::uint64_t> index(item_words(items));
    std::vector<std::uint64_t> table(cells * floats);
    for (std::uint32_t item = 0; item < items; ++item)
      if (source.below(2) == 0) {
        set_item(index, item);
        add_to_sketch(table, cells_of(item, i, cells), std::vector<float>{1, -0.5F}, scale);
      }
    source.change(index);
    index.resize(item_words(items));
    source.change(table);
    table.resize(cells * floats);
    const auto present = list_items(index, items);
    const auto plan = plan_peeling(present, i, cells);
    ASSERT_EQ(plan.steps.size() + plan.left.size(), present.size());
    std::vector<float> values(floats);
    peel(table, floats, present, i, plan, [&](std::uint32_t item, std::span<const std::uint64_t> words) {
      ASSERT_LT(item, items);
      round_sums(words, scale, values);
    });
  }
}

} // namespace
} // namespace dynamix::exchange
