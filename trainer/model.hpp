#pragma once

#include "trainer/model_options.hpp"

#include <torch/torch.h>

namespace dynamix::trainer {

/// Builds the model for images of [b, channels, height, width] float32; forward gives logits [b, classes].
/// Initialised from `options.seed` alone: the same bits on every rank, whatever ran before. `check_model_fits` must
/// have passed.
///
/// lenet: convolutions of 6 and 16 channels (5x5, the image padded to 32x32), each with ReLU and 2x2 max pooling, then
/// 120, 84 and `classes` units (LeCun et al. 1998, with ReLU for tanh); PyTorch's default initialisation. vgg11:
/// configuration A of arXiv 1409.1556 with each layer's width times `width`, one linear layer behind a global average
/// as usual for small images; He initialisation. Group norm, where asked for, follows each convolution with
/// gcd(channels, 8) groups.
torch::nn::Sequential build_model(const model_options& options);

} // namespace dynamix::trainer
