#pragma once

/// Which form sums a sparse bucket: the one that is predicted to be the fastest, from what the forms have been measured
/// to take. Pure: members that are given the same choose the same.

#include "exchange/compression.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dynamix::exchange {

/// "dense", "union", "gather" or "lhc".
std::string_view name_of(form how);

/// What a sum has to move.
struct form_load {
  std::uint32_t members = 2;
  std::size_t items = 0;       ///< of the bucket
  std::size_t item_floats = 1; ///< of an item
  std::size_t longest = 0;     ///< items of the member that brings the most
  std::size_t together = 0;    ///< items that any member brings
};

/// Bytes that a member sends for one sum, and receives. `how` is none, union_of_items, gather or lhc.
double bytes_of(form how, const form_load& load);

/// The seconds of a byte of each form are what it was last measured to take. A form that was not measured is hoped to
/// be as fast a byte as the fastest that was: so each that could win is tried once, and none that cannot. What was
/// measured is forgotten when the form in use has come to take half or twice as much a byte.
class form_choice {
public:
  /// In use now. Begins with union_of_items, which shows what there is and costs little where nothing is sparse.
  form now() const { return now_; }
  /// A sum by the form in use has taken so long. Returns the form for the next ones: another one if it is predicted to
  /// be faster by more than a tenth.
  form take(double seconds, const form_load& load);
  /// The seconds that a sum by `how` is predicted to take; before the first measurement, none.
  std::optional<double> predict(form how, const form_load& load) const;

private:
  form now_ = form::union_of_items;
  std::array<std::optional<double>, 4> seconds_a_byte_; ///< by form
};

} // namespace dynamix::exchange
