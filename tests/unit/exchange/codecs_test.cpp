#include "exchange/float_sum.hpp"
#include "exchange/item_bits.hpp"
#include "exchange/item_rows.hpp"
#include "exchange/sketch.hpp"
#include "storage/splitmix64.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

namespace dynamix::exchange {
namespace {

constexpr float largest = std::numeric_limits<float>::max();
constexpr float infinity = std::numeric_limits<float>::infinity();

float exact(const std::vector<float>& values) {
  float total = 0;
  sum_exactly(values, {&total, 1});
  return total;
}

TEST(ExactFloatSum, RoundsOnceToTheNearestAndToEven) {
  EXPECT_EQ(exact({0x1p24F, 1}), 0x1p24F) << "a tie, to even";
  EXPECT_EQ(exact({0x1p24F, 1, 0x1p-149F}), 0x1p24F + 2) << "more than a tie";
  EXPECT_EQ(exact({0x1p24F, 3}), 0x1p24F + 4) << "a tie, to even";
  EXPECT_EQ(exact({1e30F, 1, -1e30F}), 1);
  EXPECT_EQ(exact({largest, 0x1p-149F, -largest}), 0x1p-149F);
  EXPECT_EQ(exact({-0x1p24F, -1, -0x1p-149F}), -0x1p24F - 2);
  EXPECT_FALSE(std::signbit(exact({-0.0F, -0.0F})));
}

TEST(ExactFloatSum, KeepsInfinitiesAndWhatIsNoNumber) {
  EXPECT_EQ(exact({infinity, 1, -largest}), infinity);
  EXPECT_TRUE(std::isnan(exact({infinity, -infinity})));
  EXPECT_TRUE(std::isnan(exact({NAN, 1})));
  EXPECT_EQ(exact({largest, largest}), infinity);
  EXPECT_EQ(exact({largest, largest, -largest}), largest) << "only the sum may overflow";
}

TEST(ItemBits, ListsWhatWasSetAndNothingBeyondTheLastItem) {
  std::vector<std::uint64_t> words(item_words(130));
  ASSERT_EQ(words.size(), 3U);
  for (const auto item : {0U, 63U, 64U, 129U})
    set_item(words, item);
  EXPECT_TRUE(has_item(words, 63));
  EXPECT_FALSE(has_item(words, 65));
  words[2] |= std::uint64_t{1} << 40U;
  EXPECT_EQ(list_items(words, 130), (std::vector<std::uint32_t>{0, 63, 64, 129}));
}

TEST(ItemBits, CountsNegativeZeroAsSomething) {
  EXPECT_EQ(nonzero_items(std::vector<float>{0, 0, 0, -0.0F, 0, 0, 1, 0}, 2), (std::vector<std::uint32_t>{1, 3}));
}

TEST(ItemRows, ReadBackWhatWasWritten) {
  std::vector<float> gradients(30);
  std::iota(gradients.begin(), gradients.end(), 0.0F);
  const std::vector<std::uint32_t> items = {1, 4, 9};
  const auto row = encode_items(7, items, gradients, 5, 3);
  item_row read;
  ASSERT_EQ(decode_items(row, {.items = 10, .item_floats = 3, .capacity = 5, .earlier = 4}, read), "");
  EXPECT_EQ(read.total, 7U);
  EXPECT_EQ(read.items, items);
  EXPECT_EQ(read.values, (std::vector<float>{3, 4, 5, 12, 13, 14, 27, 28, 29}));
}

TEST(ItemRows, RefuseWhatNoMemberSends) {
  const std::vector<float> gradients(30);
  const item_row_shape shape{.items = 10, .item_floats = 3, .capacity = 2, .earlier = 0};
  item_row read;
  auto row = encode_items(2, std::vector<std::uint32_t>{4, 4}, gradients, 2, 3);
  EXPECT_EQ(decode_items(row, shape, read), "a peer's item numbers do not ascend below 10");
  row = encode_items(2, std::vector<std::uint32_t>{4, 9}, gradients, 2, 3);
  EXPECT_EQ(decode_items(row, shape, read), "");
  row[1] = (std::int64_t{10} << 32) + 4;
  EXPECT_EQ(decode_items(row, shape, read), "a peer's item numbers do not ascend below 10");
  row[0] = 11;
  EXPECT_EQ(decode_items(row, shape, read), "a peer announces 11 items of a tensor that has 10");
  row[0] = -1;
  EXPECT_EQ(decode_items(row, shape, read), "a peer announces -1 items of a tensor that has 10");
  row.pop_back();
  EXPECT_EQ(decode_items(row, shape, read), "a row of 4 words; it must have 5");
}

TEST(Sketch, PeelsAtItsUsualSizeAndSaysWhatItLeaves) {
  storage::splitmix64 random(3);
  std::size_t failed = 0;
  for (std::uint64_t salt = 0; salt < 200; ++salt) {
    std::vector<std::uint32_t> items(1000 + random.below(3000));
    std::uint32_t next = 0;
    for (auto& item : items)
      item = next += 1 + random.below(50);
    const auto plan = plan_peeling(items, salt, sketch_cells(items.size()));
    EXPECT_EQ(plan.steps.size() + plan.left.size(), items.size());
    failed += plan.left.empty() ? 0 : 1;
    const auto crowded = plan_peeling(items, salt, items.size() / 3 * 3);
    EXPECT_EQ(crowded.steps.size() + crowded.left.size(), items.size());
    EXPECT_GT(crowded.left.size(), items.size() / 2);
  }
  EXPECT_LE(failed, 2U) << "some 0.01 % are expected of sketches this small";
}

/// Two items in the same three cells never peel, so there must be none as long as there are triples enough.
TEST(Sketch, GivesNoTwoItemsTheSameThreeCells) {
  for (const std::size_t cells : {30U, 33U, 408U}) {
    const auto third = cells / 3;
    const auto items = static_cast<std::uint32_t>(std::min<std::size_t>(third * third * third, 200'000));
    std::set<std::array<std::uint32_t, 3>> seen;
    std::vector<std::size_t> load(cells);
    for (std::uint32_t item = 0; item < items; ++item) {
      const auto [at] = cells_of(item, 5, cells);
      EXPECT_TRUE(seen.insert(std::array{at[0], at[1], at[2]}).second) << item << " of " << cells;
      for (const auto cell : at)
        ++load[cell];
    }
    EXPECT_LT(std::ranges::max(load), 2 * items / third) << "all cells alike";
  }
}

TEST(Sketch, CellsOfAnItemAreDifferentAndInRange) {
  for (std::uint32_t item = 0; item < 10'000; ++item) {
    const auto [at] = cells_of(item, item * 77, 3 + item / 100 * 3);
    EXPECT_LT(at[0], at[1]);
    EXPECT_LT(at[1], at[2]);
    EXPECT_LT(at[2], 3 + item / 100 * 3);
  }
}

TEST(Sketch, RefusesWhatDoesNotFitItsScaleAndStaysAsItWas) {
  const auto scale = scale_for(127, 4); // of 1 and above
  std::vector<std::uint64_t> table(2 * 3);
  const item_cells at{{0, 1, 2}};
  for (const float value : {NAN, infinity, -infinity, 0x1p10F, 0x1p-100F, 1 + 0x1p-23F}) {
    const bool fits = value == 1 + 0x1p-23F;
    EXPECT_EQ(add_to_sketch(table, at, std::vector<float>{1, value}, scale), fits) << value;
    EXPECT_EQ(table[0] != 0, fits);
  }
}

TEST(Sketch, ScaleHoldsTheSumOfAllMembersLargestValues) {
  for (const std::uint32_t members : {1U, 2U, 3U, 4U, 5U, 4096U}) {
    for (const unsigned exponent : {0U, 1U, 100U, 254U}) {
      const auto scale = scale_for(exponent, members);
      EXPECT_LE(std::ldexp(1.0, scale.bits) * members, 0x1p62);
      std::vector<std::uint64_t> table(3);
      const float value = exponent == 0 ? 0x1p-149F : std::ldexp(2 - 0x1p-23F, static_cast<int>(exponent) - 127);
      EXPECT_TRUE(add_to_sketch(table, {{0, 1, 2}}, {&value, 1}, scale)) << exponent;
      float back = 0;
      round_sums({table.data(), 1}, scale, {&back, 1});
      EXPECT_EQ(back, value);
    }
  }
}

} // namespace
} // namespace dynamix::exchange
