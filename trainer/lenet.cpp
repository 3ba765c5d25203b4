#include "trainer/lenet.hpp"

#include "trainer/convolution.hpp"

namespace dynamix::trainer {

torch::nn::Sequential build_lenet(const model_options& options) {
  constexpr std::int64_t padded = 32;
  const auto padding = (padded - static_cast<std::int64_t>(options.images.height)) / 2;
  torch::nn::Sequential layers;
  add_convolution(layers, options.images.channels, 6, 5, padding, options.normalization);
  add_pooling(layers);
  add_convolution(layers, 6, 16, 5, 0, options.normalization);
  add_pooling(layers);
  layers->push_back(torch::nn::Flatten());
  layers->push_back(torch::nn::Linear(16 * 5 * 5, 120));
  layers->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(true)));
  layers->push_back(torch::nn::Linear(120, 84));
  layers->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(true)));
  layers->push_back(torch::nn::Linear(84, options.images.classes));
  return layers;
}

} // namespace dynamix::trainer
