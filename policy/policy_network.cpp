#include "policy/policy_network.hpp"

#include "policy/actions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/core.h>
#include <numbers>
#include <random>

namespace dynamix::policy {
namespace {

constexpr std::size_t layers = 3; ///< of each network

/// Eight sums side by side, which the compiler may add at once; one sum it must not reorder.
template <class Weight>
double dot(std::span<const Weight> weights, std::span<const double> inputs) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= inputs.size(); i += sums.size())
    for (std::size_t lane = 0; lane < sums.size(); ++lane)
      sums[lane] += static_cast<double>(weights[i + lane]) * inputs[i + lane];
  double total = 0;
  for (const double sum : sums)
    total += sum;
  for (; i < inputs.size(); ++i)
    total += static_cast<double>(weights[i]) * inputs[i];
  return total;
}

/// Standard normal numbers as LibTorch draws them (at::randn of doubles), so that a seed means what it always meant:
/// by the Box-Muller transform in blocks of sixteen, the last one overlapping the one before where the count is no
/// multiple. Fewer than sixteen are the first of a block.
std::vector<double> draw_normal(std::size_t count, std::mt19937& generator) {
  constexpr std::size_t block = 16;
  constexpr std::size_t half = block / 2;
  const auto draw = [&generator] {
    const auto high = static_cast<std::uint64_t>(generator()) << 32U;
    return static_cast<double>((high | generator()) & ((1ULL << 53U) - 1)) * 0x1p-53;
  };
  std::vector<double> numbers(std::max(count, block));
  const auto transform = [&numbers](std::size_t begin) {
    for (std::size_t i = begin; i < begin + half; ++i) {
      const double radius = std::sqrt(-2 * std::log(1 - numbers[i]));
      const double angle = 2 * std::numbers::pi * numbers[i + half];
      numbers[i] = radius * std::cos(angle);
      numbers[i + half] = radius * std::sin(angle);
    }
  };
  std::ranges::generate(numbers, draw);
  for (std::size_t begin = 0; begin + block <= numbers.size(); begin += block)
    transform(begin);
  if (numbers.size() % block != 0) {
    const std::size_t last = numbers.size() - block;
    std::generate(numbers.begin() + static_cast<std::ptrdiff_t>(last), numbers.end(), draw);
    transform(last);
  }
  numbers.resize(count);
  return numbers;
}

/// A matrix [rows][columns] with orthonormal rows or columns (the shorter side), times `gain`: the basis of a normal
/// matrix whose triangle has a positive diagonal, by Gram and Schmidt (Saxe et al. 2014, arXiv 1312.6120).
std::vector<float> orthogonal(std::size_t rows, std::size_t columns, double gain, std::mt19937& generator) {
  const std::size_t length = std::max(rows, columns);
  const std::size_t count = std::min(rows, columns);
  const auto normal = draw_normal(length * count, generator); // [length][count]
  std::vector<std::vector<double>> basis(count, std::vector<double>(length));
  for (std::size_t k = 0; k < count; ++k) {
    auto& own = basis[k];
    for (std::size_t i = 0; i < length; ++i)
      own[i] = normal[i * count + k];
    for (int pass = 0; pass < 2; ++pass) // once leaves what rounding adds
      for (std::size_t other = 0; other < k; ++other) {
        const double along = dot<double>(basis[other], own);
        for (std::size_t i = 0; i < length; ++i)
          own[i] -= along * basis[other][i];
      }
    const double norm = std::sqrt(dot<double>(own, own));
    for (auto& number : own)
      number /= norm;
  }
  std::vector<float> matrix(rows * columns);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      matrix[row * columns + column] =
          static_cast<float>(gain * (rows < columns ? basis[row][column] : basis[column][row]));
  return matrix;
}

} // namespace

policy_network::policy_network(std::size_t state_size, std::size_t actions, std::size_t hidden) {
  const auto add = [this](const std::string& name, std::size_t inputs, std::size_t outputs) {
    const auto rows = static_cast<std::int64_t>(outputs);
    parameters_.push_back({.name = name + ".weight",
                           .shape = {rows, static_cast<std::int64_t>(inputs)},
                           .numbers = std::vector<float>(outputs * inputs)});
    parameters_.push_back({.name = name + ".bias", .shape = {rows}, .numbers = std::vector<float>(outputs)});
  };
  for (const auto& [network, outputs] : {std::pair{"policy", actions}, std::pair{"value", std::size_t{1}}})
    for (std::size_t i = 0; i < layers; ++i)
      add(fmt::format("{}.{}", network, i), i == 0 ? state_size : hidden, i + 1 == layers ? outputs : hidden);
}

std::size_t policy_network::actions() const {
  return static_cast<std::size_t>(parameters_[2 * layers - 1].shape[0]);
}

void policy_network::initialise(std::uint64_t seed) {
  std::mt19937 generator(static_cast<std::uint32_t>(make_generator(seed, random_purpose::parameters)()));
  for (std::size_t i = 0; i < 2 * layers; ++i) {
    auto& weight = parameters_[2 * i];
    const double gain = i % layers + 1 < layers ? std::numbers::sqrt2 : i < layers ? 0.01 : 1.0;
    weight.numbers = orthogonal(static_cast<std::size_t>(weight.shape[0]), static_cast<std::size_t>(weight.shape[1]),
                                gain, generator);
    std::ranges::fill(parameters_[2 * i + 1].numbers, 0.0F);
  }
}

std::vector<float> policy_network::forward(std::size_t first, std::span<const float> state) const {
  std::vector<double> activations(state.begin(), state.end());
  std::vector<double> next;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::span<const float> weights = parameters_[first + 2 * layer].numbers;
    const auto& biases = parameters_[first + 2 * layer + 1].numbers;
    next.resize(biases.size());
    for (std::size_t i = 0; i < biases.size(); ++i) {
      const double sum = biases[i] + dot(weights.subspan(i * activations.size(), activations.size()), activations);
      next[i] = layer + 1 == layers ? sum : 1 - 2 / (std::exp(2 * sum) + 1); // tanh, in a third of std::tanh's time
    }
    activations.swap(next);
  }
  return {activations.begin(), activations.end()};
}

std::vector<float> policy_network::probabilities(std::span<const float> state) const {
  auto numbers = logits(state);
  const double highest = *std::ranges::max_element(numbers);
  double sum = 0;
  for (const float logit : numbers)
    sum += std::exp(logit - highest);
  for (auto& number : numbers)
    number = static_cast<float>(std::exp(number - highest) / sum);
  return numbers;
}

} // namespace dynamix::policy
