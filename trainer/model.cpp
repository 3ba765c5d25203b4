#include "trainer/model.hpp"

#include "client/random.hpp"
#include "trainer/ncf.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace dynamix::trainer {
namespace {

namespace nn = torch::nn;

/// A convolution that keeps the image's size when `padding` is kernel/2, with its norm and ReLU.
void add_convolution(nn::Sequential& layers, std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
                     std::int64_t padding, cluster::normalization_kind normalization) {
  layers->push_back(nn::Conv2d(nn::Conv2dOptions(inputs, outputs, kernel).padding(padding)));
  if (normalization == cluster::normalization_kind::group)
    layers->push_back(nn::GroupNorm(nn::GroupNormOptions(std::gcd(outputs, std::int64_t{8}), outputs)));
  layers->push_back(nn::ReLU(nn::ReLUOptions(true)));
}

void add_pooling(nn::Sequential& layers) {
  layers->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(2)));
}

nn::Sequential build_lenet(const model_options& options) {
  constexpr std::int64_t padded = 32;
  const auto padding = (padded - static_cast<std::int64_t>(options.images.height)) / 2;
  nn::Sequential layers;
  add_convolution(layers, options.images.channels, 6, 5, padding, options.normalization);
  add_pooling(layers);
  add_convolution(layers, 6, 16, 5, 0, options.normalization);
  add_pooling(layers);
  layers->push_back(nn::Flatten());
  layers->push_back(nn::Linear(16 * 5 * 5, 120));
  layers->push_back(nn::ReLU(nn::ReLUOptions(true)));
  layers->push_back(nn::Linear(120, 84));
  layers->push_back(nn::ReLU(nn::ReLUOptions(true)));
  layers->push_back(nn::Linear(84, options.images.classes));
  return layers;
}

nn::Sequential build_vgg11(const model_options& options) {
  constexpr std::int64_t pooling = 0;
  constexpr std::array<std::int64_t, 13> plan = {64,  pooling, 128,     pooling, 256, 256,    pooling,
                                                 512, 512,     pooling, 512,     512, pooling};
  nn::Sequential layers;
  std::int64_t inputs = options.images.channels;
  for (const auto channels : plan) {
    if (channels == pooling) {
      add_pooling(layers);
      continue;
    }
    const auto outputs = std::max<std::int64_t>(1, std::llround(static_cast<double>(channels) * options.width));
    add_convolution(layers, inputs, outputs, 3, 1, options.normalization);
    inputs = outputs;
  }
  layers->push_back(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions(1)));
  layers->push_back(nn::Flatten());
  layers->push_back(nn::Linear(inputs, options.images.classes));
  return layers;
}

nn::Sequential build_ncf(const model_options& options) {
  nn::Sequential layers;
  layers->push_back(std::make_shared<ncf>(options.interactions.users, options.interactions.items));
  return layers;
}

/// Draws all weights from one generator in the order of the layers. The layers' own initialisation has drawn from the
/// process's generator, which no two ranks need to have in the same state.
void initialise(nn::Sequential& layers, cluster::model_kind kind, std::uint64_t seed) {
  const torch::NoGradGuard no_gradients;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(client::derive_seed(seed, 0x6d6f64656cU)); // "model"
  const auto draw = [&](torch::Tensor weight, torch::Tensor bias, bool convolution) {
    const auto fan_in = static_cast<double>(weight[0].numel());
    if (convolution && kind == cluster::model_kind::vgg11) {
      weight.normal_(0, std::sqrt(2 / fan_in), generator);
      bias.zero_();
    } else {
      // PyTorch's default: kaiming_uniform with a = sqrt(5) comes to this bound.
      weight.uniform_(-1 / std::sqrt(fan_in), 1 / std::sqrt(fan_in), generator);
      bias.uniform_(-1 / std::sqrt(fan_in), 1 / std::sqrt(fan_in), generator);
    }
  };
  for (auto& layer : layers->modules(false)) {
    if (auto* convolution = layer->as<nn::Conv2dImpl>())
      draw(convolution->weight, convolution->bias, true);
    else if (auto* linear = layer->as<nn::LinearImpl>())
      draw(linear->weight, linear->bias, false);
    else if (auto* embedding = layer->as<nn::EmbeddingImpl>())
      embedding->weight.normal_(0, 0.1, generator);
  }
}

} // namespace

torch::nn::Sequential build_model(const model_options& options) {
  auto layers = options.kind == cluster::model_kind::lenet   ? build_lenet(options)
                : options.kind == cluster::model_kind::vgg11 ? build_vgg11(options)
                                                             : build_ncf(options);
  initialise(layers, options.kind, options.seed);
  return layers;
}

} // namespace dynamix::trainer
