#pragma once

/// Lossless homomorphic compression: sums of sparse items that are added without being decompressed (after "Lossless
/// Homomorphic Compression", Li et al., arXiv 2402.07529; own design of cells, sizes and index).
///
/// A sketch is a table of cells, each as wide as an item. An item is added to three cells chosen by hashes of its
/// number, so sketches of several members add cell by cell. With the union of all members' items known, what they sum
/// up to is peeled off: a cell that only one item lies in is that item's sum, which is then subtracted from the item's
/// other two cells, and so on. That reaches all items with high probability if there are some 1.23 cells an item.
///
/// Cells are integers modulo 2^64 in units of 2^unit, the same on all members. So adding and subtracting lose nothing,
/// and an item's sum is rounded once, at the end.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::exchange {

/// The unit of all cells of a sum: what one member brings is a whole number of 2^unit, below 2^bits of them.
struct sketch_scale {
  int unit = -149; ///< [-149, 127]
  int bits = 62;   ///< [1, 62]: the members' sum stays below 2^63

  bool operator==(const sketch_scale&) const = default;
};

/// The exponent field of the largest finite float of `values`, 0 where there is none but zeros and subnormals.
unsigned largest_exponent(std::span<const float> values);

/// A scale for sums of `members` in which floats up to that of exponent field `exponent` times 2^headroom fit.
sketch_scale scale_for(unsigned exponent, std::uint32_t members);

/// The number of cells for so many items: 0 where the items are so few that a sketch often fails or does not pay, else
/// 1.35 cells an item and 64, which leaves room for a union that grows a little from step to step.
std::size_t sketch_cells(std::size_t items);

/// The three cells of an item, all different, each below `cells` (a positive multiple of three). `salt` makes another
/// step's choice independent.
struct item_cells {
  std::uint32_t at[3];
};
item_cells cells_of(std::uint32_t item, std::uint64_t salt, std::size_t cells);

/// Adds an item's `values` to the sketch `table`, `values.size()` words a cell. False, and the table is as it was, when
/// a value does not fit the scale: NaN, infinite, too large, or with bits below the unit.
bool add_to_sketch(std::span<std::uint64_t> table, const item_cells& at, std::span<const float> values,
                   const sketch_scale& scale);

/// The order in which a union of items is peeled, which depends on nothing but their numbers.
struct peeling {
  struct step {
    std::uint32_t place = 0; ///< of the item in the union
    std::uint32_t cell = 0;  ///< that it is alone in when its turn comes
  };
  std::vector<step> steps;
  std::vector<std::uint32_t> left; ///< places of items that do not peel, ascending
};
peeling plan_peeling(std::span<const std::uint32_t> items, std::uint64_t salt, std::size_t cells);

/// Peels the summed `table` by `plan`, and calls `emit(item, words)` with each item's sum in units, as int64. The table
/// is used up.
template <typename Emit>
void peel(std::span<std::uint64_t> table, std::size_t item_floats, std::span<const std::uint32_t> items,
          std::uint64_t salt, const peeling& plan, Emit&& emit) {
  const auto cells = table.size() / item_floats;
  for (const auto& [place, cell] : plan.steps) {
    const auto sum = table.subspan(cell * item_floats, item_floats);
    for (const auto other : cells_of(items[place], salt, cells).at) {
      if (other == cell)
        continue;
      auto* to = table.data() + other * item_floats;
      for (std::size_t i = 0; i < item_floats; ++i)
        to[i] -= sum[i];
    }
    emit(items[place], std::span<const std::uint64_t>(sum));
  }
}

/// An item's sum from its words, each rounded once to the nearest float. Zero is +0.
void round_sums(std::span<const std::uint64_t> words, const sketch_scale& scale, std::span<float> values);

} // namespace dynamix::exchange
