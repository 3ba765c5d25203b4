#include "trainer/lstm.hpp"

#include "trainer/autocast.hpp"
#include "trainer/sampled_softmax.hpp"

namespace dynamix::trainer {

namespace {

namespace nn = torch::nn;

class lstm : public nn::Module {
public:
  lstm(std::int64_t vocabulary, std::int64_t units, std::int64_t layers, bool sparse)
      : tokens_(register_module("tokens", embedding(vocabulary, units, sparse))),
        recurrent_(
            register_module("recurrent", nn::LSTM(nn::LSTMOptions(units, units).num_layers(layers).batch_first(true)))),
        answers_(register_module("answers", embedding(vocabulary, units, sparse))) {}

  torch::Tensor forward(const torch::Tensor& tokens) { return hidden(tokens).matmul(answers_->weight.t()); }

protected:
  torch::Tensor hidden(const torch::Tensor& tokens) {
    const no_autocast_on_cpu full; // without AVX-512 oneDNN has no LSTM in bfloat16, and says so by an exception
    // A copy: a sparse gradient may keep the memory of the tokens to name its rows, which the loader uses again.
    return std::get<0>(recurrent_(tokens_(tokens.clone())));
  }
  nn::Embedding& answers() { return answers_; }

private:
  static nn::Embedding embedding(std::int64_t rows, std::int64_t units, bool sparse) {
    return nn::Embedding(nn::EmbeddingOptions(rows, units).sparse(sparse));
  }

  nn::Embedding tokens_;
  nn::LSTM recurrent_;
  nn::Embedding answers_;
};

class sampling_lstm final : public lstm, public sampling_model {
public:
  sampling_lstm(std::int64_t vocabulary, std::int64_t units, std::int64_t layers, std::uint32_t draws)
      : lstm(vocabulary, units, layers, true), vocabulary_(vocabulary), draws_(draws) {
    begin_step(0);
  }

  void begin_step(std::uint64_t seed) override { drawn_ = draw_answers(seed, draws_, vocabulary_); }
  sampled_answers answer(const torch::Tensor& inputs, const torch::Tensor& labels) override {
    return sample_logits(hidden(inputs), labels, answers(), drawn_);
  }

private:
  std::int64_t vocabulary_;
  std::uint32_t draws_;
  drawn_answers drawn_;
};

} // namespace

nn::Sequential build_lstm(const model_options& options) {
  const std::int64_t vocabulary = options.images.classes;
  const auto units = units_of(options);
  nn::Sequential layers;
  if (options.sampled_softmax > 0 && options.sampled_softmax < vocabulary)
    layers->push_back(std::make_shared<sampling_lstm>(vocabulary, units, options.layers, options.sampled_softmax));
  else
    layers->push_back(std::make_shared<lstm>(vocabulary, units, options.layers, false));
  return layers;
}

} // namespace dynamix::trainer
