#include "trainer/initialisation.hpp"

#include <cmath>

namespace dynamix::trainer {

namespace {

double fan_in(const torch::Tensor& weight) {
  return static_cast<double>(weight[0].numel());
}

void draw_uniform(torch::Tensor weight, torch::Tensor bias, at::Generator& generator) {
  const double bound = 1 / std::sqrt(fan_in(weight));
  weight.uniform_(-bound, bound, generator);
  if (bias.defined())
    bias.uniform_(-bound, bound, generator);
}

void draw(torch::nn::Module& model, at::Generator& generator, bool he) {
  const torch::NoGradGuard no_gradients;
  for (auto& layer : model.modules(false)) {
    if (auto* convolution = layer->as<torch::nn::Conv2dImpl>()) {
      if (!he) {
        draw_uniform(convolution->weight, convolution->bias, generator);
        continue;
      }
      convolution->weight.normal_(0, std::sqrt(2 / fan_in(convolution->weight)), generator);
      if (convolution->bias.defined())
        convolution->bias.zero_();
    } else if (auto* linear = layer->as<torch::nn::LinearImpl>()) {
      draw_uniform(linear->weight, linear->bias, generator);
    } else if (auto* recurrent = layer->as<torch::nn::LSTMImpl>()) {
      const double bound = 1 / std::sqrt(static_cast<double>(recurrent->options.hidden_size()));
      for (auto& parameter : recurrent->parameters())
        parameter.uniform_(-bound, bound, generator);
    } else if (auto* embedding = layer->as<torch::nn::EmbeddingImpl>()) {
      embedding->weight.normal_(0, 0.1, generator);
    }
  }
}

} // namespace

void draw_default(torch::nn::Module& model, at::Generator& generator) {
  draw(model, generator, false);
}

void draw_he(torch::nn::Module& model, at::Generator& generator) {
  draw(model, generator, true);
}

} // namespace dynamix::trainer
