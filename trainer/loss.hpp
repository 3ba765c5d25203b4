#pragma once

/// Loss and metric of every task (trainer/task.hpp). Internal to the room: includes Torch.

#include <torch/torch.h>

namespace dynamix::trainer {

/// Cross entropy (natural logarithm) of logits [b, ..., classes] against labels int64 [b, ...]: the mean over the
/// labels of a sample, summed over samples. All samples have as many labels, so a weight by samples is one by labels
/// (tokens). Logits of bfloat16 count as float32. `label_smoothing` in [0, 1): the share of a target that is spread
/// evenly over all classes.
torch::Tensor loss_sum(const torch::Tensor& answers, const torch::Tensor& labels, double label_smoothing = 0);

/// How many samples' worth of labels have the largest logit: a sample of which half the labels do counts 0.5.
double count_correct(const torch::Tensor& logits, const torch::Tensor& labels);
/// The same as a float64 tensor of one number, which a device may still be computing.
torch::Tensor correct_sum(const torch::Tensor& logits, const torch::Tensor& labels);

} // namespace dynamix::trainer
