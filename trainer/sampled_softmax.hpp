#pragma once

/// Softmax over a large vocabulary by a sample of it. Internal to the room: includes Torch.

#include <torch/torch.h>

#include <cstdint>

namespace dynamix::trainer {

/// Answers to set against the right ones.
struct drawn_answers {
  torch::Tensor numbers; ///< int64 [n], rising
  /// float32 [n]: the logarithm of how often each was drawn over how often it was to be expected. So weighted, the
  /// exponentials of their logits add up to that of the whole vocabulary in the mean.
  torch::Tensor log_weights;
};

/// Draws `draws` times, with replacement, from `vocabulary` answers that are numbered by falling frequency: number n
/// with probability ln((n+2)/(n+1)) / ln(vocabulary+1), as words are distributed (Zipf). The same for the same seed.
drawn_answers draw_answers(std::uint64_t seed, std::uint32_t draws, std::int64_t vocabulary);

/// What a loss compares in place of the logits of all answers and their labels.
struct sampled_answers {
  torch::Tensor logits; ///< [..., 1 + n], the right answer's first
  torch::Tensor labels; ///< int64 [...], all 0
};

/// `hidden` [..., units], labels int64 [...], `answers` the rows of the last layer. The cross entropy of the result is
/// the sampled softmax loss (Blanc and Rendle, arXiv 1712.00527, equation 3): ln(e^o + sum_s w_s e^(o_s)) - o, with the
/// right answer's logit o, and without those drawn that are the right one. `answers` gets a sparse gradient where its
/// options say so, for the right answers and the drawn ones.
sampled_answers sample_logits(const torch::Tensor& hidden, const torch::Tensor& labels, torch::nn::Embedding& answers,
                              const drawn_answers& drawn);

/// A model that in training compares the right answers with drawn ones.
class sampling_model {
public:
  virtual ~sampling_model() = default;
  /// Before a step's first pass: what is drawn for the step, for all of its passes, follows from `seed` alone.
  virtual void begin_step(std::uint64_t seed) = 0;
  virtual sampled_answers answer(const torch::Tensor& inputs, const torch::Tensor& labels) = 0;
};

} // namespace dynamix::trainer
