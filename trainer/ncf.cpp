#include "trainer/ncf.hpp"

namespace dynamix::trainer {

namespace {

constexpr std::int64_t embedding_floats = 32;
constexpr std::int64_t last_units = 8;

torch::nn::Embedding make_embedding(std::int64_t rows) {
  return torch::nn::Embedding(torch::nn::EmbeddingOptions(rows, embedding_floats).sparse(true));
}

} // namespace

ncf::ncf(std::int64_t users, std::int64_t items)
    : factor_user_(register_module("factor_user", make_embedding(users))),
      factor_item_(register_module("factor_item", make_embedding(items))),
      user_(register_module("user", make_embedding(users))), item_(register_module("item", make_embedding(items))),
      perceptron_(register_module("perceptron",
                                  torch::nn::Sequential(torch::nn::Linear(2 * embedding_floats, 32), torch::nn::ReLU(),
                                                        torch::nn::Linear(32, 16), torch::nn::ReLU(),
                                                        torch::nn::Linear(16, last_units), torch::nn::ReLU()))),
      score_(register_module("score", torch::nn::Linear(embedding_floats + last_units, 1))) {}

torch::Tensor ncf::forward(const torch::Tensor& samples) {
  const auto users = samples.narrow(1, 0, 1);
  const auto items = samples.narrow(1, 1, samples.size(1) - 1);
  const auto factors = factor_user_(users) * factor_item_(items);
  const auto both = torch::cat({user_(users).expand({-1, items.size(1), -1}), item_(items)}, 2);
  return score_(torch::cat({factors, perceptron_->forward(both)}, 2)).squeeze(2);
}

torch::nn::Sequential build_ncf(const model_options& options) {
  torch::nn::Sequential layers;
  layers->push_back(std::make_shared<ncf>(options.images.users, options.images.items));
  return layers;
}

} // namespace dynamix::trainer
