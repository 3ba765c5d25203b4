#pragma once

/// Changes of training images that keep what they show. Pure.

#include <cstddef>
#include <cstdint>

namespace dynamix::trainer {

/// A crop of the image's size out of the image in a black border of 4 pixels, and a reflection: what ResNets are
/// trained on CIFAR with (arXiv 1512.03385, section 4.2).
struct image_change {
  static constexpr int border = 4;
  int down = 0; ///< where the crop begins, relative to the image: -border to border
  int right = 0;
  bool flip = false;
};

/// Of one sample in one epoch: the same whichever worker has it, in whichever batch, before and after a resume.
image_change draw_change(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample);

/// Writes the changed channel of `height` x `width` bytes.
void change_image(const std::uint8_t* from, std::size_t height, std::size_t width, const image_change& change,
                  std::uint8_t* to);

} // namespace dynamix::trainer
