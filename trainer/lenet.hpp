#pragma once

/// LeNet-5. Internal to the room: includes Torch.

#include "trainer/model_options.hpp"

#include <torch/torch.h>

namespace dynamix::trainer {

/// Convolutions of 6 and 16 channels (5x5, the image padded to 32x32), each with ReLU and 2x2 max pooling, then 120, 84
/// and `classes` units (LeCun et al. 1998, with ReLU for tanh).
torch::nn::Sequential build_lenet(const model_options& options);

} // namespace dynamix::trainer
