#include "ledger/thinned.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace dynamix::ledger {
namespace {

constexpr float no_value = std::numeric_limits<float>::quiet_NaN();

float mean_of(float left, float right) {
  if (std::isnan(left))
    return right;
  return std::isnan(right) ? left : left + (right - left) / 2;
}

} // namespace

thinned_table::thinned_table(std::size_t columns, std::size_t capacity)
    : columns_(std::max<std::size_t>(columns, 1)), capacity_(capacity), sums_(columns_), counts_(columns_) {
  assert(capacity >= 2 && capacity % 2 == 0);
}

void thinned_table::add(std::span<const float> row) {
  assert(row.size() == columns_);
  if (rows() == capacity_) // before, and not after, so that a full table is shown full
    halve();
  for (std::size_t i = 0; i < columns_; ++i)
    if (!std::isnan(row[i])) {
      sums_[i] += row[i];
      ++counts_[i];
    }
  if (++pending_ < stride_)
    return;
  for (std::size_t i = 0; i < columns_; ++i)
    values_.push_back(counts_[i] == 0 ? no_value : static_cast<float>(sums_[i] / static_cast<double>(counts_[i])));
  std::ranges::fill(sums_, 0.0);
  std::ranges::fill(counts_, 0U);
  pending_ = 0;
}

void thinned_table::halve() {
  const std::size_t half = rows() / 2;
  for (std::size_t row = 0; row < half; ++row)
    for (std::size_t i = 0; i < columns_; ++i)
      values_[row * columns_ + i] = mean_of(values_[2 * row * columns_ + i], values_[(2 * row + 1) * columns_ + i]);
  values_.resize(half * columns_);
  stride_ *= 2;
}

} // namespace dynamix::ledger
