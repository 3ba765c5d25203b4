#pragma once

/// History in bounded memory: a table that, when it is full, joins its rows two by two.

#include <cstddef>
#include <span>
#include <vector>

namespace dynamix::ledger {

/// Rows of `columns` numbers, oldest first, at most `capacity` of them; every row is the mean of `stride()` added ones.
/// A number that is not known is NaN, and a mean is over what is known.
class thinned_table {
public:
  /// `capacity` is even and at least 2.
  thinned_table(std::size_t columns, std::size_t capacity);

  void add(std::span<const float> row);
  std::size_t columns() const { return columns_; }
  std::size_t rows() const { return values_.size() / columns_; }
  /// Added rows that one kept row stands for: a power of two.
  std::size_t stride() const { return stride_; }
  std::span<const float> row(std::size_t index) const { return std::span(values_).subspan(index * columns_, columns_); }

private:
  void halve();

  std::size_t columns_;
  std::size_t capacity_;
  std::size_t stride_ = 1;
  std::size_t pending_ = 0; ///< rows in `sums_`
  std::vector<double> sums_;
  std::vector<std::size_t> counts_;
  std::vector<float> values_;
};

} // namespace dynamix::ledger
