#pragma once

/// PyTorch's norms in the precision of their parameters, whatever reaches them: CUDA's autocast does so by itself, the
/// CPU's does not. Internal to the room: includes Torch.

#include <torch/torch.h>

namespace dynamix::trainer {

struct widening_group_norm final : torch::nn::GroupNormImpl {
  using GroupNormImpl::GroupNormImpl;
  torch::Tensor forward(const torch::Tensor& input) { return GroupNormImpl::forward(input.to(weight.scalar_type())); }
};
TORCH_MODULE_IMPL(group_norm_layer, widening_group_norm);

struct widening_layer_norm final : torch::nn::LayerNormImpl {
  using LayerNormImpl::LayerNormImpl;
  torch::Tensor forward(const torch::Tensor& input) { return LayerNormImpl::forward(input.to(weight.scalar_type())); }
};
TORCH_MODULE_IMPL(layer_norm_layer, widening_layer_norm);

} // namespace dynamix::trainer
