#include "trainer/transformer.hpp"

#include "trainer/norms.hpp"

#include <cmath>
#include <limits>

namespace dynamix::trainer {

namespace {

namespace nn = torch::nn;

layer_norm_layer layer_norm(std::int64_t units) {
  return layer_norm_layer(nn::LayerNormOptions({units}));
}

class decoder_block final : public nn::Module {
public:
  decoder_block(std::int64_t units, std::int64_t heads)
      : heads_(heads), attention_norm_(register_module("attention_norm", layer_norm(units))),
        attention_in_(register_module("attention_in", nn::Linear(units, 3 * units))),
        attention_out_(register_module("attention_out", nn::Linear(units, units))),
        perceptron_norm_(register_module("perceptron_norm", layer_norm(units))),
        perceptron_in_(register_module("perceptron_in", nn::Linear(units, 4 * units))),
        perceptron_out_(register_module("perceptron_out", nn::Linear(4 * units, units))) {}

  /// `past` [context, context] is added to the scores: 0 for what a position may see, -inf for the rest.
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& past) {
    const auto between = input + attention_out_(attend(attention_in_(attention_norm_(input)), past));
    return between + perceptron_out_(torch::gelu(perceptron_in_(perceptron_norm_(between))));
  }

private:
  torch::Tensor attend(const torch::Tensor& projected, const torch::Tensor& past) const {
    const auto batch = projected.size(0);
    const auto context = projected.size(1);
    const auto units = projected.size(2) / 3;
    // [3, b, heads, context, units/heads]
    const auto parts = projected.view({batch, context, 3, heads_, units / heads_}).permute({2, 0, 3, 1, 4});
    const double scale = 1 / std::sqrt(static_cast<double>(units / heads_));
    const auto scores = (parts[0] * scale).matmul(parts[1].transpose(2, 3)) + past;
    return scores.softmax(-1).matmul(parts[2]).transpose(1, 2).reshape({batch, context, units});
  }

  std::int64_t heads_;
  layer_norm_layer attention_norm_;
  nn::Linear attention_in_, attention_out_;
  layer_norm_layer perceptron_norm_;
  nn::Linear perceptron_in_, perceptron_out_;
};

class transformer final : public nn::Module {
public:
  transformer(std::int64_t vocabulary, std::int64_t context, std::int64_t units, std::int64_t layers,
              std::int64_t heads)
      : tokens_(register_module("tokens", nn::Embedding(vocabulary, units))),
        positions_(register_module("positions", nn::Embedding(context, units))) {
    for (std::int64_t layer = 0; layer < layers; ++layer)
      blocks_.push_back(
          register_module("block" + std::to_string(layer), std::make_shared<decoder_block>(units, heads)));
    norm_ = register_module("norm", layer_norm(units));
    logits_ = register_module("logits", nn::Linear(nn::LinearOptions(units, vocabulary).bias(false)));
  }

  torch::Tensor forward(const torch::Tensor& tokens) {
    const auto context = tokens.size(1);
    const auto places = torch::arange(context, tokens.options());
    auto output = tokens_(tokens) + positions_(places);
    const auto past =
        torch::full({context, context}, -std::numeric_limits<float>::infinity(), output.options()).triu(1);
    for (auto& block : blocks_)
      output = block->forward(output, past);
    return logits_(norm_(output));
  }

private:
  nn::Embedding tokens_, positions_;
  std::vector<std::shared_ptr<decoder_block>> blocks_;
  layer_norm_layer norm_{nullptr};
  nn::Linear logits_{nullptr};
};

} // namespace

nn::Sequential build_transformer(const model_options& options) {
  nn::Sequential layers;
  layers->push_back(std::make_shared<transformer>(options.images.classes, options.images.context, units_of(options),
                                                  options.layers, options.heads));
  return layers;
}

void draw_transformer(nn::Module& model, at::Generator& generator) {
  const torch::NoGradGuard no_gradients;
  double layers = 0;
  for (const auto& layer : model.modules(false))
    layers += layer->as<decoder_block>() != nullptr ? 1 : 0;
  for (auto& parameter : model.named_parameters()) {
    auto values = parameter.value();
    const auto& name = parameter.key();
    if (name.find("norm") != std::string::npos)
      continue; // ones and zeros
    if (values.dim() == 1)
      values.zero_();
    else
      values.normal_(0, name.find("_out.") != std::string::npos ? 0.02 / std::sqrt(2 * layers) : 0.02, generator);
  }
}

} // namespace dynamix::trainer
