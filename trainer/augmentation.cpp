#include "trainer/augmentation.hpp"

#include "client/random.hpp"

#include <algorithm>

namespace dynamix::trainer {

image_change draw_change(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample) {
  constexpr std::uint64_t stream = 0x6368616e6765U; // "change"
  const auto of_epoch = client::derive_seed(client::derive_seed(seed, stream), epoch);
  client::splitmix64 random(client::derive_seed(of_epoch, sample));
  constexpr std::uint32_t places = 2 * image_change::border + 1;
  image_change change;
  change.down = static_cast<int>(random.below(places)) - image_change::border;
  change.right = static_cast<int>(random.below(places)) - image_change::border;
  change.flip = random.below(2) == 1;
  return change;
}

void change_image(const std::uint8_t* from, std::size_t height, std::size_t width, const image_change& change,
                  std::uint8_t* to) {
  const auto rows = static_cast<int>(height);
  const auto columns = static_cast<int>(width);
  for (int row = 0; row < rows; ++row, to += columns) {
    std::fill_n(to, columns, std::uint8_t{0});
    const int source = row + change.down;
    if (source < 0 || source >= rows)
      continue;
    const auto* line = from + static_cast<std::ptrdiff_t>(source) * columns;
    for (int column = std::max(0, -change.right); column < std::min(columns, columns - change.right); ++column)
      to[column] = line[column + change.right];
    if (change.flip)
      std::reverse(to, to + columns);
  }
}

} // namespace dynamix::trainer
