#include "exchange/item_bits.hpp"
#include "exchange/item_bucket.hpp"

namespace dynamix::exchange {

namespace {

class union_bucket final : public item_bucket {
public:
  using item_bucket::item_bucket;

private:
  void begin() override {
    words_ = std::make_shared<std::vector<std::uint64_t>>(item_words(items_));
    for (const auto number : touched_)
      set_item(*words_, number);
    union_ = below_.combine(words_, combining::bitwise_or);
  }
  void finish() override {
    union_->wait();
    touched_ = list_items(*words_, items_);
    sum_items(below_, touched_, width_, gradients_, float_sum::in_order);
  }

  shared_words words_;
  std::unique_ptr<pending> union_;
};

} // namespace

std::unique_ptr<bucket> make_union_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums,
                                          compression_counts& counts, std::span<float> memory) {
  return std::make_unique<union_bucket>(below, items, item_floats, sums, counts, memory);
}

} // namespace dynamix::exchange
