#include "trainer/evaluation.hpp"

#include <algorithm>

namespace dynamix::trainer {

std::uint64_t count_correct(const torch::Tensor& logits, const torch::Tensor& labels) {
  if (labels.size(0) == 0)
    return 0;
  return static_cast<std::uint64_t>(logits.argmax(1).eq(labels).sum().item<std::int64_t>());
}

evaluation_sums evaluate(torch::nn::Sequential& model, batch_loader& loader, index_range range, std::uint32_t batch,
                         const std::function<bool()>& given_up) {
  // Not InferenceMode: the loader may allocate here what training uses later.
  const torch::NoGradGuard no_gradients;
  const bool was_training = model->is_training();
  model->eval();
  evaluation_sums sums;
  for (std::uint64_t done = 0; done < range.count; done += batch) {
    if (given_up && given_up())
      break;
    const auto loaded =
        loader.load(index_range{range.first + done, std::min<std::uint64_t>(batch, range.count - done)});
    const auto logits = model->forward(loaded.images);
    const auto options = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
    sums.loss += torch::nn::functional::cross_entropy(logits, loaded.labels, options).item<double>();
    sums.correct += count_correct(logits, loaded.labels);
  }
  sums.count = range.count;
  model->train(was_training);
  return sums;
}

} // namespace dynamix::trainer
