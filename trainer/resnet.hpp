#pragma once

/// Residual networks for small images. Internal to the room: includes Torch.

#include "trainer/model_options.hpp"

#include <torch/torch.h>

namespace dynamix::trainer {

/// 18, 34 or 50 layers (arXiv 1512.03385, table 1; in 50 the stride is in the 3x3 convolution, as in torchvision), each
/// stage's width times `width`. For small images the first convolution is 3x3 with stride 1, without the pooling behind
/// it. Every norm is group norm with gcd(channels, 8) groups: its output depends on no other sample, so unequal batches
/// and batches computed in parts give the gradient of the whole, which batch norm's statistics would not. The modules
/// are named as torchvision's, with `norm` for `bn`.
torch::nn::Sequential build_resnet(const model_options& options);

} // namespace dynamix::trainer
