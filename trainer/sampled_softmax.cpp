#include "trainer/sampled_softmax.hpp"

#include "storage/splitmix64.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace dynamix::trainer {

drawn_answers draw_answers(std::uint64_t seed, std::uint32_t draws, std::int64_t vocabulary) {
  const double range = std::log(static_cast<double>(vocabulary) + 1);
  storage::splitmix64 random(seed);
  std::map<std::int64_t, std::uint32_t> drawn;
  for (std::uint32_t i = 0; i < draws; ++i) {
    const double uniform = static_cast<double>(random.next() >> 11U) * 0x1p-53;
    const auto number = static_cast<std::int64_t>(std::exp(uniform * range)) - 1;
    ++drawn[std::clamp<std::int64_t>(number, 0, vocabulary - 1)];
  }
  std::vector<std::int64_t> numbers;
  std::vector<float> weights;
  for (const auto& [number, times] : drawn) {
    const auto place = static_cast<double>(number);
    const double expected = draws * std::log((place + 2) / (place + 1)) / range;
    numbers.push_back(number);
    weights.push_back(static_cast<float>(std::log(times / expected)));
  }
  return {torch::tensor(numbers, torch::kInt64), torch::tensor(weights, torch::kFloat32)};
}

sampled_answers sample_logits(const torch::Tensor& hidden, const torch::Tensor& labels, torch::nn::Embedding& answers,
                              const drawn_answers& drawn) {
  const auto numbers = drawn.numbers.to(hidden.device());
  const auto weights = drawn.log_weights.to(hidden.device());
  const auto right = (hidden * answers(labels)).sum(-1, true);
  const auto is_right = labels.unsqueeze(-1).eq(numbers);
  const auto others =
      (hidden.matmul(answers(numbers).t()) + weights).masked_fill(is_right, -std::numeric_limits<double>::infinity());
  return {torch::cat({right, others}, -1), torch::zeros_like(labels)};
}

} // namespace dynamix::trainer
