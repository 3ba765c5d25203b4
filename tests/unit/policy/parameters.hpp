#pragma once

/// What the tests of PPO's details share: one shape, and how parameters are compared.

#include "policy/ppo.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dynamix::policy::testing {

inline const policy_shape shape{.kind = "ppo-add", .actions = {-100, -25, 0, 25, 100}, .hidden = 64};

/// The parameters that a learner holds now.
inline std::vector<torch::Tensor> parameters_of(const learner& trained) {
  auto network = make_network(shape, 99);
  std::uint64_t version = 0;
  EXPECT_EQ(from_bytes(trained.current().parameters, shape, network, version), "");
  return actor_critic(network).parameters();
}

/// Euclidean, over all parameters together.
inline double distance(const std::vector<torch::Tensor>& left, const std::vector<torch::Tensor>& right) {
  double squares = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    squares += (left[i] - right[i]).to(torch::kFloat64).square().sum().item<double>();
  return std::sqrt(squares);
}

inline void expect_near(const torch::Tensor& actual, const std::vector<double>& expected, double tolerance = 1e-6) {
  ASSERT_EQ(actual.numel(), static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(actual.flatten()[i].item<double>(), expected[i], tolerance) << "entry " << i;
}

inline torch::Tensor row(std::vector<float> numbers) {
  return torch::tensor(numbers);
}

} // namespace dynamix::policy::testing
