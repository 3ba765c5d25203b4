#pragma once

/// A recurrent language model. Internal to the room: includes Torch.

#include "trainer/model_options.hpp"

#include <torch/torch.h>

namespace dynamix::trainer {

/// Tokens [b, context] to logits [b, context, vocabulary], of which those at t depend on the tokens up to t only: an
/// embedding, an LSTM of `layers` layers that begins each sample at zero, and an embedding of answers, whose products
/// with the LSTM's output are the logits (Jozefowicz et al., "Exploring the Limits of Language Modeling", arXiv
/// 1602.02410, without projection). `units_of` says how wide all of them are. Where `sampled_softmax` is less than the
/// vocabulary it is a sampling_model, and the gradients of both embeddings are sparse.
torch::nn::Sequential build_lstm(const model_options& options);

} // namespace dynamix::trainer
