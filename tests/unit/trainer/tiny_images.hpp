#pragma once

#include "storage/splitmix64.hpp"
#include "tests/temporary_directory.hpp"

#include <cstdint>
#include <string>

namespace dynamix::trainer {

/// A Fashion-MNIST of a few hundred random images, as its files would be.
inline void write_images(const temporary_directory& directory, const std::string& prefix, std::uint32_t count) {
  const auto number = [](std::uint32_t value) {
    return std::string{static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
                       static_cast<char>(value)};
  };
  storage::splitmix64 random(count);
  std::string images = number(0x803) + number(count) + number(28) + number(28);
  std::string labels = number(0x801) + number(count);
  for (std::uint32_t sample = 0; sample < count; ++sample) {
    labels.push_back(static_cast<char>(random.below(10)));
    for (int pixel = 0; pixel < 28 * 28; ++pixel)
      images.push_back(static_cast<char>(random.below(256)));
  }
  directory.write(prefix + "-images-idx3-ubyte", images);
  directory.write(prefix + "-labels-idx1-ubyte", labels);
}

} // namespace dynamix::trainer
