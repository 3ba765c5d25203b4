#include "trainer/evaluation.hpp"

#include "trainer/loss.hpp"

#include <algorithm>

namespace dynamix::trainer {

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
    const auto logits = model->forward(loaded.inputs);
    sums.loss += loss_sum(logits, loaded.labels).item<double>();
    sums.correct += count_correct(logits, loaded.labels);
  }
  sums.count = range.count;
  model->train(was_training);
  return sums;
}

} // namespace dynamix::trainer
