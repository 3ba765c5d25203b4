#include "exchange/item_bits.hpp"
#include "exchange/item_bucket.hpp"
#include "exchange/sketch.hpp"

#include <algorithm>

namespace dynamix::exchange {

namespace {

/// Exponent fields of floats, a bit each: an OR of them tells all members the largest one.
constexpr std::size_t exponents = 256;

class sketch_bucket final : public item_bucket {
public:
  using item_bucket::item_bucket;

private:
  /// The words that are combined by OR: the items, those of them that do not fit the scale, and exponents.
  std::span<std::uint64_t> present() { return std::span(*index_).first(item_words(items_)); }
  std::span<std::uint64_t> unfit() { return std::span(*index_).subspan(item_words(items_), item_words(items_)); }
  std::span<std::uint64_t> magnitudes() { return std::span(*index_).last(item_words(exponents)); }

  void begin() override {
    ++salt_;
    index_ = std::make_shared<std::vector<std::uint64_t>>(2 * item_words(items_) + item_words(exponents));
    cells_ = sketch_cells(expected_items_);
    table_ = std::make_shared<std::vector<std::uint64_t>>(cells_ * width_);
    unsigned largest = 0;
    for (const auto number : touched_) {
      set_item(present(), number);
      largest = std::max(largest, largest_exponent(item(number)));
      if (cells_ > 0 && !add_to_sketch(*table_, cells_of(number, salt_, cells_), item(number), scale_))
        set_item(unfit(), number);
    }
    set_item(magnitudes(), largest);
    union_ = below_.combine(index_, combining::bitwise_or);
    if (cells_ > 0)
      sketch_ = below_.combine(table_, combining::add);
  }

  void finish() override {
    union_->wait();
    touched_ = list_items(present(), items_);
    if (cells_ == 0) {
      ++counts_.unsketched_sums;
      sum_items(below_, touched_, width_, gradients_, float_sum::exact);
    } else {
      // The order is found while the sketch is on its way.
      const auto plan = plan_peeling(touched_, salt_, cells_);
      sketch_->wait();
      const auto raw = take_peeled(plan);
      sum_items(below_, raw, width_, gradients_, float_sum::exact);
    }
    expected_items_ = touched_.size();
    const auto exponents_of_all = list_items(magnitudes(), exponents); // at least this member's, unless a peer lies
    if (exponents_of_all.empty())
      throw error("a peer sends the magnitudes of no gradients at all");
    scale_ = scale_for(exponents_of_all.back(), below_.size());
  }

  /// Takes the sums of all items that the sketch holds whole; returns the others.
  std::vector<std::uint32_t> take_peeled(const peeling& plan) {
    auto raw = list_items(unfit(), items_);
    counts_.unfit += raw.size();
    peel(*table_, width_, touched_, salt_, plan, [&](std::uint32_t number, std::span<const std::uint64_t> words) {
      if (!has_item(unfit(), number))
        round_sums(words, scale_, item(number));
    });
    for (const auto place : plan.left) {
      if (has_item(unfit(), touched_[place]))
        continue;
      raw.push_back(touched_[place]);
      ++counts_.unpeeled;
    }
    counts_.sketched += touched_.size() - raw.size();
    std::ranges::sort(raw);
    return raw;
  }

  // The same on all members, from the step before.
  std::uint64_t salt_ = 0;
  std::size_t expected_items_ = 0;
  sketch_scale scale_;

  std::size_t cells_ = 0;
  shared_words index_;
  shared_words table_;
  std::unique_ptr<pending> union_;
  std::unique_ptr<pending> sketch_;
};

} // namespace

std::unique_ptr<bucket> make_sketch_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums,
                                           compression_counts& counts, std::span<float> memory) {
  return std::make_unique<sketch_bucket>(below, items, item_floats, sums, counts, memory);
}

} // namespace dynamix::exchange
