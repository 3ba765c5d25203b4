#include "exchange/compression.hpp"
#include "exchange/form_choice.hpp"
#include "storage/splitmix64.hpp"
#include "tests/unit/exchange/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

/// Compressed sums against slow ones: of float32 in the order of ranks, and of bits by schoolbook addition.

namespace dynamix::exchange {
namespace {

/// All members' gradients, each as it would be summed densely.
using gradients = std::vector<std::vector<float>>;

std::vector<float> sum_by_rank(const gradients& all) {
  auto total = all[0];
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    for (std::size_t i = 0; i < total.size(); ++i)
      total[i] += all[rank][i];
  return total;
}

/// The exact sum of floats, rounded once: bit by bit, in units of 2^-149.
float slow_exact_sum(const std::vector<float>& values) {
  double special = 0;
  for (const float value : values)
    if (!std::isfinite(value))
      special += value;
  if (special != 0 || std::isnan(special))
    return static_cast<float>(special);
  std::vector<int> bits(320); // signed, before they are carried
  for (const float value : values) {
    int exponent = 0;
    auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 24));
    int place = exponent - 24 + 149;
    for (; place < 0; ++place)
      mantissa /= 2; // a subnormal has zeros there
    for (; mantissa != 0; mantissa /= 2, ++place)
      bits[static_cast<std::size_t>(place)] += static_cast<int>(mantissa % 2);
  }
  const auto carry = [&] {
    for (std::size_t i = 0; i + 1 < bits.size(); ++i) {
      const int upper = bits[i] >= 0 ? bits[i] / 2 : -((1 - bits[i]) / 2);
      bits[i] -= 2 * upper;
      bits[i + 1] += upper;
    }
  };
  carry();
  const bool negative = bits.back() < 0;
  if (negative) {
    for (auto& bit : bits)
      bit = -bit;
    carry();
  }
  int top = 319;
  while (top >= 0 && bits[static_cast<std::size_t>(top)] == 0)
    --top;
  if (top < 0)
    return 0;
  const int low = std::max(0, top - 23);
  double kept = 0;
  for (int i = top; i >= low; --i)
    kept = 2 * kept + bits[static_cast<std::size_t>(i)];
  const bool half = low > 0 && bits[static_cast<std::size_t>(low - 1)] != 0;
  const bool below = low > 1 && std::any_of(bits.begin(), bits.begin() + low - 1, [](int bit) { return bit != 0; });
  if (half && (below || std::fmod(kept, 2) == 1))
    kept += 1;
  const double magnitude = std::ldexp(kept, low - 149);
  const float rounded = magnitude > std::numeric_limits<float>::max() ? HUGE_VALF : static_cast<float>(magnitude);
  return negative ? -rounded : rounded;
}

std::vector<float> sum_exactly_slowly(const gradients& all) {
  std::vector<float> total(all[0].size());
  std::vector<float> column(all.size());
  for (std::size_t i = 0; i < total.size(); ++i) {
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      column[rank] = all[rank][i];
    if (std::ranges::count(column, 0.0F) == static_cast<std::ptrdiff_t>(column.size()))
      continue;
    total[i] = slow_exact_sum(column);
  }
  return total;
}

/// How values are drawn.
using drawing = std::function<float(storage::splitmix64&)>;

float normal(storage::splitmix64& random) {
  float sum = -6; // of twelve uniform numbers: near enough
  for (int i = 0; i < 12; ++i)
    sum += static_cast<float>(random.next() >> 40U) * 0x1p-24F;
  return sum;
}
float heavy_tailed(storage::splitmix64& random) {
  return std::ldexp(normal(random), static_cast<int>(random.below(200)) - 100);
}
float subnormal(storage::splitmix64& random) {
  return std::ldexp(normal(random), -140);
}
float any_bits(storage::splitmix64& random) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
}
float signed_zeros_and_few(storage::splitmix64& random) {
  constexpr float some[] = {0.0F, -0.0F, 0.0F, -0.0F, 1.0F, -1.0F, 0x1p-149F, -0x1p-149F};
  return some[random.below(8)];
}
float with_specials(storage::splitmix64& random) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float some[] = {NAN, infinity, -infinity, std::numeric_limits<float>::max()};
  return random.below(50) == 0 ? some[random.below(4)] : normal(random);
}
float near_the_largest(storage::splitmix64& random) {
  return std::copysign(std::numeric_limits<float>::max(), normal(random));
}

struct pattern {
  std::string name;
  drawing value;
  std::size_t items = 2000;
  std::size_t item_floats = 16;
  double touched = 0.2; ///< share of the items on each rank
};

const std::vector<pattern>& patterns() {
  static const std::vector<pattern> all = {
      {"normal", normal},
      {"rows of 32", normal, 1500, 32, 0.3},
      {"items of one float", normal, 40'000, 1, 0.05},
      {"odd rows", normal, 1111, 21, 0.5},
      {"heavy tails", heavy_tailed},
      {"subnormal", subnormal},
      {"any bits", any_bits},
      {"signed zeros", signed_zeros_and_few},
      {"NaN and infinities", with_specials},
      {"overflow", near_the_largest},
      {"nothing", normal, 2000, 16, 0},
      {"few", normal, 2000, 16, 0.01},
      {"dense", normal, 2000, 16, 1},
      {"tiny", normal, 3, 5, 0.5},
  };
  return all;
}

/// Rank `rank`'s gradient and the items in it. Of a step: the share of touched items differs a little each time.
std::vector<float> draw(const pattern& of, std::uint32_t rank, std::uint64_t step, std::vector<std::uint32_t>& items) {
  storage::splitmix64 random(step * 1000 + rank);
  std::vector<float> values(of.items * of.item_floats);
  items.clear();
  for (std::uint32_t item = 0; item < of.items; ++item) {
    if (random.below(1 << 20) >= static_cast<std::uint32_t>(of.touched * (1 + 0.02 * (step % 3)) * (1 << 20)))
      continue;
    items.push_back(item);
    for (std::size_t i = 0; i < of.item_floats; ++i)
      values[item * of.item_floats + i] = of.value(random);
  }
  return values;
}

/// The bits of a float, those of all NaNs alike.
std::uint32_t bits_of(float value) {
  return std::isnan(value) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(value);
}

std::size_t count_different(std::span<const float> some, std::span<const float> others) {
  std::size_t different = some.size() == others.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(some.size(), others.size()); ++i)
    different += bits_of(some[i]) != bits_of(others[i]) ? 1 : 0;
  return different;
}

void fill(bucket& filled, const std::vector<float>& values, const std::vector<std::uint32_t>& items) {
  const auto into = std::get<std::span<float>>(filled.gradients());
  std::ranges::copy(values, into.begin());
  if (auto* touched = filled.touched())
    *touched = items;
}

/// Sums a pattern on `size` ranks for some steps; returns what compressing came to on rank 0.
compression_counts run_pattern(const pattern& of, form how, std::uint32_t size, std::uint64_t seed,
                               std::uint64_t steps) {
  struct drawn_step {
    gradients all;
    std::vector<std::vector<std::uint32_t>> items;
    std::vector<float> expected;
  };
  std::vector<drawn_step> drawn(steps);
  for (std::uint64_t step = 0; step < steps; ++step) {
    drawn[step].items.resize(size);
    for (std::uint32_t rank = 0; rank < size; ++rank)
      drawn[step].all.push_back(draw(of, rank, seed + step, drawn[step].items[rank]));
    drawn[step].expected = how == form::lhc ? sum_exactly_slowly(drawn[step].all) : sum_by_rank(drawn[step].all);
  }
  std::vector<compression_counts> counts(size);
  run_ranks(size, [&](std::uint32_t rank, std::unique_ptr<group>& joined) {
    joined = compress(std::move(joined), how, counts[rank]);
    const auto summed = joined->make_sparse_bucket(of.items, of.item_floats, 1);
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto& [all, items, expected] = drawn[step];
      fill(*summed, all[rank], items[rank]);
      summed->sums()[0] = rank + 0.1;
      summed->start();
      summed->wait();
      const auto got = std::get<std::span<float>>(summed->gradients());
      const bool compressed = summed->touched() != nullptr; // small ones are left to the ring and its order
      EXPECT_EQ(compressed ? count_different(got, expected) : 0, 0U) << of.name << ", step " << step;
      EXPECT_NEAR(summed->sums()[0], size * (size - 1) / 2.0 + 0.1 * size, 1e-12);
    }
  });
  for (const auto& each : counts)
    EXPECT_EQ(each.items, counts[0].items);
  return counts[0];
}

class Compression : public testing::TestWithParam<form> {};

TEST_P(Compression, ChangesNoBitOfTheSumItStandsFor) {
  for (const auto& each : patterns())
    for (const std::uint32_t size : {2U, 3U, 5U})
      run_pattern(each, GetParam(), size, 7 * size, 3);
}

INSTANTIATE_TEST_SUITE_P(Forms, Compression, testing::Values(form::union_of_items, form::gather, form::lhc),
                         [](const auto& of) {
                           return of.param == form::gather ? "Gather" : of.param == form::lhc ? "Sketches" : "Union";
                         });

TEST(Compression, SketchesHoldWhatFitsTheirScaleAndSendTheRestAsItIs) {
  const auto ordinary = run_pattern(patterns()[0], form::lhc, 3, 1, 6);
  EXPECT_EQ(ordinary.sums, 6U);
  EXPECT_EQ(ordinary.unsketched_sums, 1U) << "the first, of which nothing was known before";
  EXPECT_EQ(ordinary.unfit, 0U);
  EXPECT_EQ(ordinary.unpeeled, 0U);
  EXPECT_GT(ordinary.sketched, ordinary.items / 2);
  const auto heavy = run_pattern(patterns()[4], form::lhc, 3, 1, 6);
  EXPECT_GT(heavy.unfit, 0U) << "2^200 does not fit into 62 bits";
}

TEST(Compression, LeavesPlainBucketsAndSmallOnesToTheRing) {
  run_ranks(2, [](std::uint32_t, std::unique_ptr<group>& joined) {
    compression_counts counts;
    joined = compress(std::move(joined), form::lhc, counts);
    EXPECT_EQ(joined->make_bucket(element::float32, 100'000, 1)->touched(), nullptr);
    EXPECT_EQ(joined->make_sparse_bucket(100, 8, 1)->touched(), nullptr);
    EXPECT_NE(joined->make_sparse_bucket(10'000, 8, 1)->touched(), nullptr);
  });
}

TEST(Compression, OfNothingOrOfOneMemberIsTheGroupItself) {
  compression_counts counts;
  auto alone = make_silent_group(1);
  const auto* before = alone.get();
  alone = compress(std::move(alone), form::lhc, counts);
  EXPECT_EQ(alone.get(), before);
  auto two = make_silent_group(2);
  before = two.get();
  two = compress(std::move(two), form::none, counts);
  EXPECT_EQ(two.get(), before);
}

TEST(Compression, FollowsAUnionThatGrowsManyTimesOver) {
  run_ranks(2, [](std::uint32_t rank, std::unique_ptr<group>& joined) {
    compression_counts counts;
    joined = compress(std::move(joined), form::lhc, counts);
    const auto summed = joined->make_sparse_bucket(4000, 8, 0);
    std::vector<std::uint32_t> items;
    for (const double share : {0.1, 0.9, 0.1, 0.9}) {
      const pattern growing{"growing", normal, 4000, 8, share};
      const auto others = draw(growing, 1 - rank, 1, items);
      const auto values = draw(growing, rank, 1, items);
      fill(*summed, values, items);
      summed->start();
      summed->wait();
      EXPECT_EQ(count_different(std::get<std::span<float>>(summed->gradients()), sum_exactly_slowly({values, others})),
                0U);
    }
    EXPECT_GT(counts.unpeeled, 0U);
  });
}

/// Some forms add in another order: small whole numbers have one sum.
float whole_number(storage::splitmix64& random) {
  return static_cast<float>(random.below(200)) - 100;
}

TEST(Compression, MeasuresTheFormsAndSumsTheSameWithEach) {
  const auto few = run_pattern({"few", whole_number, 20'000, 16, 0.002}, form::automatic, 3, 1, 60);
  EXPECT_EQ(few.sums, 60U);
  EXPECT_EQ(few.dense_sums + few.union_sums + few.gather_sums + few.lhc_sums, 60U);
  EXPECT_GE(few.union_sums, 8U) << "with which it begins";
  EXPECT_GT(few.gather_sums + few.lhc_sums + few.dense_sums, 0U) << "what could be faster is tried";
  const auto dense = run_pattern({"dense", whole_number, 2000, 16, 1}, form::automatic, 2, 1, 30);
  EXPECT_EQ(dense.items, 30U * 2000);
}

form_load load_of(double density) {
  const auto together = static_cast<std::size_t>(density * 100'000);
  return {.members = 4, .items = 100'000, .item_floats = 32, .longest = together / 3, .together = together};
}

TEST(FormChoice, TriesWhatCouldWinAndKeepsWhatIsFastest) {
  form_choice choice;
  EXPECT_EQ(choice.now(), form::union_of_items);
  EXPECT_FALSE(choice.predict(form::gather, load_of(0.01)));
  // A link of 1 GB a second; sketches cost ten times as much a byte, for the CPU.
  const auto seconds = [&](form how, const form_load& load) {
    return 1e-9 * bytes_of(how, load) * (how == form::lhc ? 10 : 1);
  };
  std::vector<form> used;
  for (int look = 0; look < 10; ++look) {
    used.push_back(choice.now());
    choice.take(seconds(choice.now(), load_of(0.01)), load_of(0.01));
  }
  const auto best = bytes_of(form::gather, load_of(0.01)) < bytes_of(form::union_of_items, load_of(0.01))
                        ? form::gather
                        : form::union_of_items;
  EXPECT_EQ(choice.now(), best);
  EXPECT_EQ(std::ranges::count(used, form::none), 0) << "all bytes at the same rate cannot win";
  EXPECT_LE(std::ranges::count(used, form::lhc), 1);
  for (int look = 0; look < 10; ++look)
    choice.take(seconds(choice.now(), load_of(1)), load_of(1));
  EXPECT_NE(choice.now(), form::lhc);
  EXPECT_LE(bytes_of(choice.now(), load_of(1)), 1.1 * bytes_of(form::none, load_of(1))) << "nothing is sparse any more";
}

TEST(FormChoice, StaysWhereAnotherFormWinsByLittleAndForgetsWhatIsOutOfDate) {
  form_choice choice;
  const auto load = load_of(0.01);
  const double slow = 1e-6 * bytes_of(form::union_of_items, load);
  for (int look = 0; look < 20; ++look) // each form takes as long
    choice.take(slow, load);
  const auto settled = choice.now();
  EXPECT_EQ(choice.take(1.05 * slow, load), settled);
  const auto other = settled == form::gather ? form::union_of_items : form::gather;
  ASSERT_TRUE(choice.predict(other, load));
  choice.take(100 * slow, load);
  const auto hoped = choice.predict(other, load);
  ASSERT_TRUE(hoped);
  EXPECT_GT(*hoped, 10 * slow) << "what was measured of the others does not hold any more";
}

} // namespace
} // namespace dynamix::exchange
