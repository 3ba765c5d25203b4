#include "trainer/convolution.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dynamix::trainer {

namespace nn = torch::nn;

std::int64_t scaled(std::int64_t channels, double width) {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(channels) * width));
}

group_norm_layer group_norm(std::int64_t channels) {
  return group_norm_layer(nn::GroupNormOptions(std::gcd(channels, std::int64_t{8}), channels));
}

void add_convolution(nn::Sequential& layers, std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
                     std::int64_t padding, cluster::normalization_kind normalization) {
  layers->push_back(nn::Conv2d(nn::Conv2dOptions(inputs, outputs, kernel).padding(padding)));
  if (normalization == cluster::normalization_kind::group)
    layers->push_back(group_norm(outputs));
  layers->push_back(nn::ReLU(nn::ReLUOptions(true)));
}

void add_pooling(nn::Sequential& layers) {
  layers->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(2)));
}

} // namespace dynamix::trainer
