#include "exchange/item_bits.hpp"
#include "exchange/item_bucket.hpp"
#include "exchange/item_rows.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::exchange {

namespace {

/// One round where every member's items fit into the room agreed on, which is a little more than the last step's
/// longest list took; a second one for what is left over.
class gather_bucket final : public item_bucket {
public:
  gather_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums, compression_counts& counts,
                std::span<float> memory)
      : item_bucket(below, items, item_floats, sums, counts, memory), contributions_(items) {}

private:
  void begin() override {
    const std::span own(touched_);
    rows_ = below_.all_gather(
        encode_items(own.size(), own.first(std::min(own.size(), capacity_)), gradients_, capacity_, width_));
  }
  void finish() override {
    const auto first = read(rows_->wait(), {items_, width_, capacity_, 0});
    std::size_t longest = 0;
    for (const auto& row : first)
      longest = std::max<std::size_t>(longest, row.total);
    std::vector<item_row> second(first.size());
    if (longest > capacity_) {
      const auto room = longest - capacity_;
      const std::span own(touched_);
      const auto rest = own.subspan(std::min(own.size(), capacity_));
      second = read(below_.all_gather(encode_items(own.size(), rest, gradients_, room, width_))->wait(),
                    {items_, width_, room, capacity_});
    }
    touched_.clear();
    for (std::size_t member = 0; member < first.size(); ++member) {
      add(first[member]);
      add(second[member]);
    }
    std::ranges::sort(touched_);
    // Members without an item bring +0, which changes nothing but -0.
    for (const auto number : touched_)
      if (std::exchange(contributions_[number], 0) < below_.size())
        for (auto& value : item(number))
          value += 0.0F;
    capacity_ = std::min(items_, longest + longest / 16);
  }

  std::vector<item_row> read(const std::vector<std::int64_t>& rows, const item_row_shape& shape) {
    std::vector<item_row> all(below_.size());
    const auto words = item_row_words(shape.capacity, shape.item_floats);
    for (std::size_t member = 0; member < all.size(); ++member)
      if (const auto problem = decode_items(std::span(rows).subspan(member * words, words), shape, all[member]);
          !problem.empty())
        throw error(problem);
    return all;
  }

  void add(const item_row& from) {
    for (std::size_t i = 0; i < from.items.size(); ++i) {
      const auto number = from.items[i];
      const auto values = std::span(from.values).subspan(i * width_, width_);
      const auto total = item(number);
      if (contributions_[number]++ == 0) {
        touched_.push_back(number);
        std::ranges::copy(values, total.begin());
      } else {
        for (std::size_t k = 0; k < width_; ++k)
          total[k] += values[k];
      }
    }
  }

  std::size_t capacity_ = 0; ///< of the first round
  std::vector<std::uint16_t> contributions_;
  std::unique_ptr<gathering> rows_;
};

} // namespace

std::unique_ptr<bucket> make_gather_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums,
                                           compression_counts& counts, std::span<float> memory) {
  return std::make_unique<gather_bucket>(below, items, item_floats, sums, counts, memory);
}

} // namespace dynamix::exchange
