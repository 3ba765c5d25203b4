#include "policy/actor_critic.hpp"

#include "policy/actions.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <fmt/core.h>

namespace dynamix::policy {

torch::Tensor orthogonal(std::int64_t rows, std::int64_t columns, double gain, at::Generator& generator) {
  const torch::NoGradGuard no_gradient;
  const auto normal = at::randn({std::max(rows, columns), std::min(rows, columns)}, generator,
                                torch::TensorOptions().dtype(torch::kFloat64));
  const auto [basis, triangle] = at::linalg_qr(normal);
  // Without the signs of the diagonal the matrices would not be uniformly distributed.
  const auto tall = basis * triangle.diagonal().sign();
  const auto matrix = rows < columns ? tall.t() : tall;
  return (gain * matrix).to(torch::kFloat32).contiguous();
}

actor_critic::actor_critic(std::int64_t state_size, std::int64_t actions, std::int64_t hidden, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(make_generator(seed, random_purpose::parameters)());
  const auto make_layers = [&](std::int64_t outputs, double head_gain) {
    std::vector<layer> layers;
    const auto add = [&](std::int64_t from, std::int64_t to, double gain) {
      layers.push_back({.weight = orthogonal(to, from, gain, generator).set_requires_grad(true),
                        .bias = torch::zeros({to}).set_requires_grad(true)});
    };
    add(state_size, hidden, std::sqrt(2.0));
    add(hidden, hidden, std::sqrt(2.0));
    add(hidden, outputs, head_gain);
    return layers;
  };
  policy_ = make_layers(actions, 0.01);
  value_ = make_layers(1, 1.0);
}

torch::Tensor actor_critic::forward(const std::vector<layer>& layers, torch::Tensor activations) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    activations = at::linear(activations, layers[i].weight, layers[i].bias);
    if (i + 1 < layers.size())
      activations = activations.tanh();
  }
  return activations;
}

std::vector<std::pair<std::string, torch::Tensor>> actor_critic::named_parameters() const {
  std::vector<std::pair<std::string, torch::Tensor>> named;
  const auto add = [&named](const std::string& network, const std::vector<layer>& layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      named.emplace_back(fmt::format("{}.{}.weight", network, i), layers[i].weight);
      named.emplace_back(fmt::format("{}.{}.bias", network, i), layers[i].bias);
    }
  };
  add("policy", policy_);
  add("value", value_);
  return named;
}

std::vector<torch::Tensor> actor_critic::parameters() const {
  std::vector<torch::Tensor> tensors;
  for (auto& [name, tensor] : named_parameters())
    tensors.push_back(tensor);
  return tensors;
}

} // namespace dynamix::policy
