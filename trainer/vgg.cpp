#include "trainer/vgg.hpp"

#include "trainer/convolution.hpp"

#include <array>

namespace dynamix::trainer {

namespace {

/// Convolutions in each of the five stages, whose widths are those of `vgg_channels`; a pooling ends each.
std::array<int, 5> convolutions_of(cluster::model_kind kind) {
  switch (kind) {
  case cluster::model_kind::vgg13:
    return {2, 2, 2, 2, 2};
  case cluster::model_kind::vgg16:
    return {2, 2, 3, 3, 3};
  case cluster::model_kind::vgg19:
    return {2, 2, 4, 4, 4};
  default:
    return {1, 1, 2, 2, 2}; // vgg11
  }
}

constexpr std::array<std::int64_t, 5> vgg_channels = {64, 128, 256, 512, 512};

} // namespace

torch::nn::Sequential build_vgg(const model_options& options) {
  const auto convolutions = convolutions_of(options.kind);
  torch::nn::Sequential layers;
  std::int64_t inputs = options.images.channels;
  for (std::size_t stage = 0; stage < convolutions.size(); ++stage) {
    const auto outputs = scaled(vgg_channels[stage], options.width);
    for (int i = 0; i < convolutions[stage]; ++i) {
      add_convolution(layers, inputs, outputs, 3, 1, options.normalization);
      inputs = outputs;
    }
    add_pooling(layers);
  }
  layers->push_back(torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions(1)));
  layers->push_back(torch::nn::Flatten());
  layers->push_back(torch::nn::Linear(inputs, options.images.classes));
  return layers;
}

} // namespace dynamix::trainer
