#pragma once

/// VGG for small images. Internal to the room: includes Torch.

#include "trainer/model_options.hpp"

#include <torch/torch.h>

namespace dynamix::trainer {

/// Configurations A, B, D and E (11, 13, 16 and 19 layers) of arXiv 1409.1556, table 1, with each layer's width times
/// `width`, and one linear layer behind a global average in place of the three of ImageNet, as usual for small images.
torch::nn::Sequential build_vgg(const model_options& options);

} // namespace dynamix::trainer
