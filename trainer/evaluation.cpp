#include "trainer/evaluation.hpp"

#include "trainer/autocast.hpp"
#include "trainer/loss.hpp"
#include "trainer/out_of_memory.hpp"

#include <algorithm>
#include <vector>

namespace dynamix::trainer {

evaluation_sums evaluate(torch::nn::Sequential& model, batch_loader& loader, index_range range, std::uint32_t batch,
                         const std::function<bool()>& given_up, std::uint64_t stride,
                         cluster::precision_kind precision) {
  // Not InferenceMode: the loader may allocate here what training uses later.
  const torch::NoGradGuard no_gradients;
  const bool was_training = model->is_training();
  model->eval();
  evaluation_sums sums;
  std::vector<std::uint32_t> numbers;
  for (std::uint64_t done = 0; done < range.count;) {
    if (given_up && given_up())
      break;
    const auto count = std::min<std::uint64_t>(batch, range.count - done);
    try {
      numbers.resize(count);
      for (std::uint64_t i = 0; i < count; ++i)
        numbers[i] = static_cast<std::uint32_t>((range.first + done + i) * stride);
      const auto loaded = loader.load(numbers);
      const auto logits = [&] {
        const autocast scope(precision, loaded.inputs.device());
        return model->forward(loaded.inputs);
      }();
      const auto loss = loss_sum(logits, loaded.labels).item<double>();
      sums.correct += count_correct(logits, loaded.labels);
      sums.loss += loss;
      done += count;
    } catch (const std::exception& error) {
      if (count == 1 || !is_out_of_memory(error))
        throw;
      batch = static_cast<std::uint32_t>((count + 1) / 2);
    }
  }
  sums.count = range.count;
  model->train(was_training);
  return sums;
}

} // namespace dynamix::trainer
