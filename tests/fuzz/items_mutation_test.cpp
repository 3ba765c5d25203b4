// Damaged rows of items and damaged sketches: a row is refused or stays within its tensor, and a sketch peels without
// leaving its table. So do sums of whole buckets with peers, or servers, that answer with damage. Meant to run with
// AddressSanitizer and UndefinedBehaviorSanitizer; DYNAMIX_FUZZ_ITERATIONS and DYNAMIX_FUZZ_SEED as for frames.

#include "exchange/compression.hpp"
#include "exchange/item_bits.hpp"
#include "exchange/item_rows.hpp"
#include "exchange/sketch.hpp"
#include "tests/fuzz/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
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

class done final : public pending {
public:
  void wait() override {}
};

class given_rows final : public gathering {
public:
  explicit given_rows(std::vector<std::int64_t> rows) : rows_(std::move(rows)) {}
  std::vector<std::int64_t> wait() override { return std::move(rows_); }

private:
  std::vector<std::int64_t> rows_;
};

class own_memory final : public bucket {
public:
  own_memory(std::size_t gradients, std::size_t sums) : gradients_(gradients), sums_(sums) {}
  std::variant<std::span<float>, std::span<double>> gradients() override { return std::span(gradients_); }
  std::span<double> sums() override { return sums_; }
  void start() override {}
  void wait() override {}

private:
  std::vector<float> gradients_;
  std::vector<double> sums_;
};

/// One of three members. What comes from the others is what this one sent, with some of it damaged now and then.
class damaging_group final : public group {
public:
  explicit damaging_group(damage& source) : source_(source) {}
  std::uint32_t position() const override { return 0; }
  std::uint32_t size() const override { return 3; }
  std::unique_ptr<bucket> make_bucket(element, std::size_t gradients, std::size_t sums) override {
    return std::make_unique<own_memory>(gradients, sums);
  }
  std::unique_ptr<gathering> all_gather(std::span<const std::int64_t> row) override {
    std::vector<std::int64_t> rows;
    for (std::uint32_t member = 0; member < size(); ++member) {
      std::vector<std::int64_t> one(row.begin(), row.end());
      if (one.size() == 2) // nanoseconds and items, by which forms are chosen: so that a seed chooses the same again
        one[0] = static_cast<std::int64_t>(source_.below(1'000'000));
      if (member > 0)
        change(one);
      rows.insert(rows.end(), one.begin(), one.end());
    }
    return std::make_unique<given_rows>(std::move(rows));
  }
  std::unique_ptr<pending> combine(shared_words words, combining) override {
    change(*words);
    return std::make_unique<done>();
  }
  std::unique_ptr<pending> sum(std::span<float> floats, std::shared_ptr<void>, float_sum) override {
    floats[source_.below(floats.size())] = std::bit_cast<float>(static_cast<std::uint32_t>(source_.below(1ULL << 32U)));
    return std::make_unique<done>();
  }
  std::optional<both_ways> ways() override { return both_ways{.ring = this, .servers = this, .servers_time = 0.5}; }
  std::unique_ptr<pending> exchange_blocks(shared_floats blocks, shared_floats into) override {
    *into = *blocks;
    return std::make_unique<done>();
  }
  std::vector<std::uint8_t> broadcast(std::uint32_t, std::span<const std::uint8_t> bytes) override {
    return {bytes.begin(), bytes.end()};
  }
  void leave(std::uint64_t) noexcept override {}

private:
  /// Their number is agreed on, so it stays. One in four is whole, so that later rounds are reached, too.
  template <typename Word>
  void change(std::vector<Word>& words) {
    if (source_.below(4) == 0)
      return;
    const auto count = words.size();
    source_.change(words);
    words.resize(count);
  }

  damage& source_;
};

TEST(CompressedSumMutation, DamagedAnswersEndASumOrStayWithinItsBucket) {
  const auto iterations = setting("DYNAMIX_FUZZ_ITERATIONS", default_iterations) / 100;
  damage source(setting("DYNAMIX_FUZZ_SEED", 20261122));
  constexpr std::size_t items = 2048;
  constexpr std::size_t floats = 8;
  static_assert(items * floats * sizeof(float) >= compressed_bytes_min);
  std::uint64_t refused = 0;
  std::uint64_t summed = 0;
  for (const auto how : {form::union_of_items, form::gather, form::lhc, form::automatic}) {
    compression_counts counts;
    for (std::uint64_t i = 0; i < iterations;) {
      const auto peers = compress(std::make_unique<damaging_group>(source), how, counts);
      const auto bucket = peers->make_sparse_bucket(items, floats, 1);
      const auto values = std::get<std::span<float>>(bucket->gradients());
      try {
        for (int step = 0; step < 20 && i < iterations; ++step, ++i) {
          bucket->touched()->clear();
          for (std::uint32_t item = 0; item < items; ++item)
            if (source.below(5) == 0) {
              bucket->touched()->push_back(item);
              std::ranges::fill(values.subspan(item * floats, floats), 0.5F);
            }
          bucket->start();
          bucket->wait();
          const auto& touched = *bucket->touched();
          ASSERT_TRUE(std::ranges::is_sorted(touched));
          ASSERT_TRUE(touched.empty() || touched.back() < items) << "iteration " << i;
          ++summed;
        }
      } catch (const error&) {
        ++refused;
        ++i;
      }
    }
  }
  EXPECT_GT(summed, 0U);
  EXPECT_GT(refused, 0U);
}

} // namespace
} // namespace dynamix::exchange
