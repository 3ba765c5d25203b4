#include "exchange/float_sum.hpp"
#include "exchange/item_bucket.hpp"

#include <algorithm>
#include <cstring>

namespace dynamix::exchange {

namespace {

/// Scatters, adds, gathers. The last two begin when it is waited for.
class block_sum final : public pending {
public:
  block_sum(group& through, std::span<float> floats, float_sum how)
      : through_(through), floats_(floats), how_(how),
        // The blocks have one size, since that is what is fast: the last ones may be filled up with zeros.
        share_((floats.size() + through.size() - 1) / through.size()),
        parts_(std::make_shared<std::vector<float>>(share_ * through.size())) {
    const auto blocks = std::make_shared<std::vector<float>>(parts_->size());
    std::ranges::copy(floats, blocks->begin());
    scattering_ = through.exchange_blocks(blocks, parts_);
  }

  void wait() override {
    scattering_->wait();
    std::vector<std::int64_t> row((share_ + 1) / 2);
    const std::span total(reinterpret_cast<float*>(row.data()), share_);
    (how_ == float_sum::exact ? sum_exactly : sum_in_order)(*parts_, total);
    const auto rows = through_.all_gather(row)->wait();
    for (std::size_t first = 0, member = 0; first < floats_.size(); first += share_, ++member)
      std::memcpy(floats_.data() + first, rows.data() + member * row.size(),
                  std::min(share_, floats_.size() - first) * sizeof(float));
  }

private:
  group& through_;
  const std::span<float> floats_;
  const float_sum how_;
  const std::size_t share_;
  const shared_floats parts_;
  std::unique_ptr<pending> scattering_;
};

} // namespace

std::unique_ptr<pending> sum_by_blocks(group& through, std::span<float> floats, float_sum how) {
  return std::make_unique<block_sum>(through, floats, how);
}

void sum_items(group& below, std::span<const std::uint32_t> items, std::size_t item_floats, std::span<float> gradients,
               float_sum how) {
  if (items.empty())
    return;
  const auto flat = std::make_shared<std::vector<float>>(items.size() * item_floats);
  const auto at = [&](std::size_t i) { return std::span(*flat).subspan(i * item_floats, item_floats); };
  const auto item = [&](std::size_t i) { return gradients.subspan(items[i] * item_floats, item_floats); };
  for (std::size_t i = 0; i < items.size(); ++i)
    std::ranges::copy(item(i), at(i).begin());
  below.sum(*flat, flat, how)->wait();
  for (std::size_t i = 0; i < items.size(); ++i)
    std::ranges::copy(at(i), item(i).begin());
}

} // namespace dynamix::exchange
