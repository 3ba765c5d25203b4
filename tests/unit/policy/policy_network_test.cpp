/// The network that decides against the one that learns.

#include "policy/actions.hpp"
#include "policy/actor_critic.hpp"
#include "policy/policy_file.hpp"
#include "policy/state.hpp"
#include "storage/atomic_file.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <span>
#include <sstream>

namespace dynamix::policy {
namespace {

/// The same in Torch for states [n, state_size], in their type.
torch::Tensor forward(const policy_network& network, std::size_t first, torch::Tensor activations) {
  const auto parameters = network.parameters();
  for (std::size_t i = first; i < first + 6; i += 2) {
    const auto tensor = [&](const policy_parameter& from) {
      return torch::from_blob(const_cast<float*>(from.numbers.data()), from.shape).to(activations.scalar_type());
    };
    activations = at::linear(activations, tensor(parameters[i]), tensor(parameters[i + 1]));
    if (i + 2 < first + 6)
      activations = activations.tanh();
  }
  return activations;
}

/// Logits, probabilities and values for states from mild to extreme. An error counts in proportion to a number above 1,
/// where float32 itself has no more digits. Torch's own sums in float32 are off by up to some millionths.
void expect_torchs(const policy_network& network, torch::ScalarType type, double tolerance) {
  constexpr std::size_t count = 100;
  std::mt19937_64 random(network.actions());
  for (const double width : {0.1, 1.0, 10.0}) {
    std::vector<float> states(count * network.state_size());
    for (auto& entry : states)
      entry = static_cast<float>(std::normal_distribution<>(0, width)(random));
    const auto rows = torch::from_blob(states.data(), {count, std::int64_t(network.state_size())}).to(type);
    const auto logits = forward(network, 0, rows).to(torch::kFloat64);
    const auto probabilities = forward(network, 0, rows).log_softmax(1).exp().to(torch::kFloat64);
    const auto values = forward(network, 6, rows).to(torch::kFloat64);
    const auto near = [tolerance](float actual, double expected, const char* what) {
      EXPECT_NEAR(actual, expected, tolerance * std::max(1.0, std::abs(expected))) << what;
    };
    for (std::size_t row = 0; row < count; ++row) {
      const std::span state(states.data() + row * network.state_size(), network.state_size());
      const auto own_logits = network.logits(state);
      const auto own_probabilities = network.probabilities(state);
      for (std::size_t action = 0; action < network.actions(); ++action) {
        near(own_logits[action], logits.data_ptr<double>()[row * network.actions() + action], "logit");
        near(own_probabilities[action], probabilities.data_ptr<double>()[row * network.actions() + action],
             "probability");
      }
      near(network.value(state), values.data_ptr<double>()[row], "value");
    }
  }
}

TEST(PolicyNetwork, SaysWhatTorchSaysOfTheShippedPolicies) {
  std::size_t policies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DYNAMIX_POLICIES)) {
    std::string contents;
    storage::tensor_file file;
    if (entry.path().extension() != ".dynamix")
      continue;
    ASSERT_EQ(storage::read_file(entry.path().string(), messages::max_policy_bytes, contents), "");
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(contents.data()), contents.size());
    ASSERT_EQ(storage::decode(bytes, file), "");
    policy_shape shape{.kind = file.metadata["kind"],
                       .hidden = static_cast<std::uint32_t>(std::stoul(file.metadata["hidden"]))};
    std::istringstream actions(file.metadata["actions"]);
    for (std::string action; std::getline(actions, action, ',');)
      shape.actions.push_back(std::stoi(action));
    auto network = make_network(shape, 1);
    std::uint64_t version = 0;
    ASSERT_EQ(from_file(file, shape, network, version), "") << entry.path();
    expect_torchs(network, torch::kFloat64, 1e-6);
    expect_torchs(network, torch::kFloat32, 1e-5);
    ++policies;
  }
  EXPECT_GE(policies, 1U);
}

TEST(PolicyNetwork, SaysWhatTorchSaysWhateverItsSizeAndNumbers) {
  std::mt19937_64 random(3);
  for (const std::size_t hidden : {4U, 7U, 64U, 100U})
    for (const std::size_t actions : {2U, 15U}) {
      policy_network network(state_size(), actions, hidden);
      network.initialise(hidden);
      expect_torchs(network, torch::kFloat64, 1e-6);
      for (auto& parameter : network.parameters())
        for (auto& number : parameter.numbers)
          number = static_cast<float>(std::normal_distribution<>(0, 0.3)(random));
      expect_torchs(network, torch::kFloat64, 1e-6);
      expect_torchs(network, torch::kFloat32, 1e-5);
    }
}

TEST(PolicyNetwork, SaysWhatTheOneWithGradientsSays) {
  const torch::NoGradGuard no_gradient;
  policy_network network(state_size(), 5, 64);
  network.initialise(9);
  const actor_critic learned(network);
  const std::vector<float> state(state_size(), 0.5F);
  const auto row = torch::tensor(state).unsqueeze(0);
  for (std::int64_t action = 0; action < 5; ++action)
    EXPECT_NEAR(network.logits(state)[action], learned.logits(row)[0][action].item<float>(), 1e-6);
  EXPECT_NEAR(network.value(state), learned.values(row)[0].item<float>(), 1e-6);
}

TEST(PolicyNetwork, IsCertainWhereLogitsAreFarApart) {
  policy_network network(state_size(), 3, 4);
  network.parameters()[5].numbers = {-1000, 1000, 0};
  EXPECT_EQ(network.probabilities(std::vector<float>(state_size())), (std::vector<float>{0, 1, 0}));
}

/// Parameters that were drawn by Torch before: the QR decomposition of its normal numbers, with a positive diagonal.
TEST(PolicyNetwork, BeginsWithTheParametersThatTorchDrewFromTheSeed) {
  for (const std::uint64_t seed : {1U, 7U, 4242U}) {
    policy_network network(state_size(), 5, 64);
    network.initialise(seed);
    at::Generator generator = at::detail::createCPUGenerator(make_generator(seed, random_purpose::parameters)());
    for (std::size_t i = 0; i < network.parameters().size(); i += 2) {
      const auto& weight = network.parameters()[i];
      const auto rows = weight.shape[0];
      const auto columns = weight.shape[1];
      const auto normal = at::randn({std::max(rows, columns), std::min(rows, columns)}, generator,
                                    torch::TensorOptions().dtype(torch::kFloat64));
      const auto [basis, triangle] = at::linalg_qr(normal);
      const auto tall = basis * triangle.diagonal().sign();
      const double gain = !weight.name.ends_with("2.weight") ? std::sqrt(2.0) : i < 6 ? 0.01 : 1;
      const auto expected = (gain * (rows < columns ? tall.t() : tall)).contiguous();
      for (std::size_t at = 0; at < weight.numbers.size(); ++at)
        ASSERT_NEAR(weight.numbers[at], expected.data_ptr<double>()[at], 1e-7 * gain) << weight.name << " " << at;
    }
  }
}

} // namespace
} // namespace dynamix::policy
