#include "exchange/float_sum.hpp"
#include "exchange/item_bits.hpp"
#include "exchange/item_bucket.hpp"

#include <algorithm>
#include <cstring>

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
    sum_items(below_, touched_, width_, gradients_, sum_in_order);
  }

  shared_words words_;
  std::unique_ptr<pending> union_;
};

} // namespace

void sum_items(group& below, std::span<const std::uint32_t> items, std::size_t item_floats, std::span<float> gradients,
               adder add) {
  if (items.empty())
    return;
  const std::size_t members = below.size();
  // The blocks have one size, since that is what is fast: the last ones may be filled up with zeros.
  const auto share = (items.size() + members - 1) / members;
  const auto block_floats = share * item_floats;
  const auto blocks = std::make_shared<std::vector<float>>(members * block_floats);
  for (std::size_t i = 0; i < items.size(); ++i)
    std::ranges::copy(gradients.subspan(items[i] * item_floats, item_floats),
                      blocks->begin() + static_cast<std::ptrdiff_t>(i * item_floats));
  const auto parts = std::make_shared<std::vector<float>>(blocks->size());
  below.exchange_blocks(blocks, parts)->wait();

  std::vector<std::int64_t> row((block_floats + 1) / 2);
  const std::span total(reinterpret_cast<float*>(row.data()), block_floats);
  add(*parts, total);
  const auto rows = below.all_gather(row)->wait();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto* from = reinterpret_cast<const std::byte*>(rows.data() + i / share * row.size()) +
                       i % share * item_floats * sizeof(float);
    std::memcpy(gradients.data() + items[i] * item_floats, from, item_floats * sizeof(float));
  }
}

std::unique_ptr<bucket> make_union_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums,
                                          compression_counts& counts, std::span<float> memory) {
  return std::make_unique<union_bucket>(below, items, item_floats, sums, counts, memory);
}

} // namespace dynamix::exchange
