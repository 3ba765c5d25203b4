#pragma once

/// A decoder Transformer that predicts the next token. Internal to the room: includes Torch.

#include "trainer/model_options.hpp"

#include <torch/torch.h>

namespace dynamix::trainer {

/// Tokens [b, context] to logits [b, context, vocabulary], of which those at t depend on the tokens up to t only:
/// learned embeddings of token and position, `layers` pre-norm blocks (causal attention of `heads` heads; a perceptron
/// of four times the width with GELU), a last norm, and a linear layer of its own weights (Radford et al., "Language
/// Models are Unsupervised Multitask Learners", 2019, without dropout). `units_of` says how wide it is.
torch::nn::Sequential build_transformer(const model_options& options);

/// As that report has it: normal with deviation 0.02, those of the layers that end a residual branch divided by
/// sqrt(2 * layers); biases 0.
void draw_transformer(torch::nn::Module& model, at::Generator& generator);

} // namespace dynamix::trainer
