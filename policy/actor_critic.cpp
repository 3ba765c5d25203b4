#include "policy/actor_critic.hpp"

#include <algorithm>
#include <cstring>

namespace dynamix::policy {

actor_critic::actor_critic(const policy_network& plain) : shape_(plain) {
  for (const auto& [name, shape, numbers] : plain.parameters())
    tensors_.emplace_back(name, torch::empty(shape));
  assign(plain);
  for (auto& [name, tensor] : tensors_)
    tensor.set_requires_grad(true);
}

void actor_critic::assign(const policy_network& plain) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto& numbers = plain.parameters()[i].numbers;
    TORCH_CHECK(tensors_[i].second.numel() == static_cast<std::int64_t>(numbers.size()), "a policy of another shape");
    std::memcpy(tensors_[i].second.data_ptr(), numbers.data(), numbers.size() * sizeof(float));
  }
}

policy_network actor_critic::plain() const {
  auto plain = shape_;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    auto& numbers = plain.parameters()[i].numbers;
    std::copy_n(tensors_[i].second.data_ptr<float>(), numbers.size(), numbers.begin());
  }
  return plain;
}

torch::Tensor actor_critic::forward(std::size_t first, torch::Tensor activations) const {
  const std::size_t end = first + tensors_.size() / 2;
  for (std::size_t i = first; i < end; i += 2) {
    activations = at::linear(activations, tensors_[i].second, tensors_[i + 1].second);
    if (i + 2 < end)
      activations = activations.tanh();
  }
  return activations;
}

std::vector<torch::Tensor> actor_critic::parameters() const {
  std::vector<torch::Tensor> tensors;
  for (const auto& [name, tensor] : tensors_)
    tensors.push_back(tensor);
  return tensors;
}

} // namespace dynamix::policy
