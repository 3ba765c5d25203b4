#include "trainer/loss.hpp"

namespace dynamix::trainer {

namespace {

double labels_a_sample(const torch::Tensor& labels) {
  return labels.dim() == 1 ? 1 : static_cast<double>(labels.numel()) / static_cast<double>(labels.size(0));
}

} // namespace

torch::Tensor loss_sum(const torch::Tensor& answers, const torch::Tensor& labels, double label_smoothing) {
  // bfloat16 has 8 bits: a sum over a batch is none in it.
  const auto logits = answers.scalar_type() == torch::kBFloat16 ? answers.to(torch::kFloat32) : answers;
  const auto options =
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum).label_smoothing(label_smoothing);
  if (labels.dim() == 1)
    return torch::nn::functional::cross_entropy(logits, labels, options);
  return torch::nn::functional::cross_entropy(logits.reshape({-1, logits.size(-1)}), labels.reshape(-1), options) /
         labels_a_sample(labels);
}

torch::Tensor correct_sum(const torch::Tensor& logits, const torch::Tensor& labels) {
  if (labels.size(0) == 0)
    return torch::zeros({}, torch::kFloat64);
  return logits.argmax(-1).eq(labels).sum().to(torch::kFloat64) / labels_a_sample(labels);
}

double count_correct(const torch::Tensor& logits, const torch::Tensor& labels) {
  return correct_sum(logits, labels).item<double>();
}

} // namespace dynamix::trainer
