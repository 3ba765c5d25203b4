#pragma once

/// What the convolutional models are made of. Internal to the room: includes Torch.

#include "cluster/cluster_file.hpp"
#include "trainer/norms.hpp"

#include <torch/torch.h>

#include <cstdint>

namespace dynamix::trainer {

/// `channels` times a width factor, at least 1.
std::int64_t scaled(std::int64_t channels, double width);

/// Group norm with gcd(channels, 8) groups, so that a group keeps several channels where a model is made narrow.
group_norm_layer group_norm(std::int64_t channels);

/// Appends a convolution of stride 1, its norm where asked for, and ReLU. The image keeps its size when `padding` is
/// kernel/2.
void add_convolution(torch::nn::Sequential& layers, std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
                     std::int64_t padding, cluster::normalization_kind normalization);

/// Appends max pooling of 2x2.
void add_pooling(torch::nn::Sequential& layers);

} // namespace dynamix::trainer
