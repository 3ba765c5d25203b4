#pragma once

/// Neural collaborative filtering. Internal to the room: includes Torch.

#include "trainer/model_options.hpp"

#include <torch/torch.h>

#include <cstdint>

namespace dynamix::trainer {

/// Scores candidate items for users (X. He et al., "Neural Collaborative Filtering", WWW 2017): embeddings of 32
/// numbers for a generalised matrix factorisation and as many for a perceptron of 64, 32, 16 and 8 units, joined by
/// one layer. Gradients of the embeddings are sparse.
class ncf final : public torch::nn::Module {
public:
  ncf(std::int64_t users, std::int64_t items);
  /// `samples`: int64 [b, 1 + candidates], a user and the items. Scores [b, candidates], as logits.
  torch::Tensor forward(const torch::Tensor& samples);

private:
  torch::nn::Embedding factor_user_, factor_item_, user_, item_;
  torch::nn::Sequential perceptron_;
  torch::nn::Linear score_;
};

/// An ncf of the users and items of `options.images`.
torch::nn::Sequential build_ncf(const model_options& options);

} // namespace dynamix::trainer
