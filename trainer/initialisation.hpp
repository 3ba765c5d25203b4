#pragma once

/// How the weights of built-in models are drawn. Internal to the room: includes Torch.

#include <torch/torch.h>

namespace dynamix::trainer {

/// Draws all weights of the model's layers from one generator, in the order of the layers. The layers' own
/// initialisation has drawn from the process's generator, which no two ranks need to have in the same state.
///
/// PyTorch's default: weights and biases of convolutions and linear layers uniform within 1/sqrt(fan-in)
/// (kaiming_uniform with a = sqrt(5)), those of an LSTM within 1/sqrt(units); embeddings normal with deviation 0.1.
void draw_default(torch::nn::Module& model, at::Generator& generator);

/// The same with He's initialisation of convolutions (arXiv 1502.01852): normal, variance 2/fan-in, biases 0.
void draw_he(torch::nn::Module& model, at::Generator& generator);

} // namespace dynamix::trainer
