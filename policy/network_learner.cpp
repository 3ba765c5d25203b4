#include "policy/network_learner.hpp"

#include "policy/actions.hpp"
#include "policy/learner_tensors.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::policy {
namespace {

torch::Tensor numbers_of(const messages::policy_version& version) {
  return torch::tensor(
      {version.policy_loss, version.value_loss, version.entropy, version.approximate_kl, version.clip_fraction},
      torch::kFloat64);
}

rollout_rows gather_rows(std::span<const messages::trajectory> rollout, std::int64_t state_size) {
  std::vector<float> states;
  std::vector<std::int64_t> actions;
  std::vector<float> log_probabilities;
  std::vector<float> values;
  for (const auto& trajectory : rollout) {
    for (const auto& step : trajectory.transitions) {
      states.insert(states.end(), step.state.begin(), step.state.end());
      actions.push_back(step.action);
      log_probabilities.push_back(step.log_probability);
      values.push_back(step.value);
    }
  }
  return {.states = torch::tensor(states).view({-1, state_size}),
          .actions = torch::tensor(actions),
          .log_probabilities = torch::tensor(log_probabilities),
          .values = torch::tensor(values)};
}

} // namespace

network_learner::network_learner(policy_shape shape, cluster::ppo options, std::uint64_t seed)
    : shape_(std::move(shape)), options_(options), network_(make_network(shape_, seed)),
      generator_(make_generator(seed, random_purpose::minibatches)),
      // PPO details 3: Adam's epsilon is 1e-5, not the library's 1e-8.
      optimizer_(network_.parameters(), torch::optim::AdamOptions(options.learning_rate).eps(1e-5)) {}

bool network_learner::fits(const messages::trajectory& candidate) const {
  const auto finite = [](float number) { return std::isfinite(number); };
  return !candidate.transitions.empty() && finite(candidate.bootstrap_value) &&
         std::ranges::all_of(candidate.transitions, [&](const messages::transition& step) {
           return step.state.size() == static_cast<std::size_t>(network_.state_size()) &&
                  step.action < network_.actions() && finite(step.log_probability) && finite(step.value) &&
                  finite(step.reward) && std::ranges::all_of(step.state, finite);
         });
}

messages::policy_version network_learner::update(std::span<const messages::trajectory> rollout) {
  std::vector<messages::trajectory> usable;
  std::ranges::copy_if(rollout, std::back_inserter(usable),
                       [this](const messages::trajectory& candidate) { return fits(candidate); });
  if (!usable.empty()) {
    const auto rows = gather_rows(usable, network_.state_size());
    learn(usable, rows);
    widen_range(rows.states);
    ++last_.version;
  }
  return current();
}

void network_learner::widen_range(const torch::Tensor& states) {
  const auto low = states.amin(0);
  const auto high = states.amax(0);
  range_low_ = range_low_.defined() ? torch::minimum(range_low_, low) : low;
  range_high_ = range_high_.defined() ? torch::maximum(range_high_, high) : high;
}

storage::tensor_file network_learner::to_file() const {
  auto file = policy::to_file(network_.plain(), shape_, last_.version);
  if (range_low_.defined()) {
    file.tensors.push_back(to_record("range.low", range_low_));
    file.tensors.push_back(to_record("range.high", range_high_));
  }
  return file;
}

void network_learner::descend(const torch::Tensor& loss) {
  optimizer_.zero_grad();
  loss.backward();
  // PPO details 11: one norm over all parameters, so that clipping keeps the gradient's direction.
  const double norm = torch::nn::utils::clip_grad_norm_(network_.parameters(), options_.max_gradient_norm);
  if (std::isfinite(norm))
    optimizer_.step();
}

void network_learner::set_learning_rate(double learning_rate) {
  for (auto& group : optimizer_.param_groups())
    static_cast<torch::optim::AdamOptions&>(group.options()).lr(learning_rate);
}

messages::policy_version network_learner::current() const {
  auto version = last_;
  version.parameters = storage::encode(to_file());
  return version;
}

std::vector<std::uint8_t> network_learner::save() const {
  auto file = to_file();
  for (const auto& [name, parameter] : network_.named_parameters()) {
    const auto found = optimizer_.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer_.state().end())
      continue; // no gradient has reached it yet
    const auto& state = static_cast<const torch::optim::AdamParamState&>(*found->second);
    file.tensors.push_back(to_record("learner." + name + ".step", torch::tensor({state.step()})));
    file.tensors.push_back(to_record("learner." + name + ".mean", state.exp_avg()));
    file.tensors.push_back(to_record("learner." + name + ".square", state.exp_avg_sq()));
  }
  file.tensors.push_back(to_record("learner.numbers", numbers_of(last_)));
  std::ostringstream generator_text;
  generator_text << generator_;
  file.metadata["learner.generator"] = generator_text.str();
  file.tensors.push_back(to_record("learner.begun_at", torch::tensor({static_cast<std::int64_t>(begun_at_)})));
  return storage::encode(file);
}

std::string network_learner::restore(std::span<const std::uint8_t> saved) {
  storage::tensor_file file;
  if (auto error = storage::decode(saved, file); !error.empty())
    return error;
  auto read = network_.plain();
  if (auto error = from_file(file, shape_, read, last_.version); !error.empty())
    return error;
  network_.assign(read);
  if (file.find("range.low") != nullptr) {
    const auto like = torch::zeros({network_.state_size()});
    if (auto error = read_tensor(file, "range.low", like, range_low_); !error.empty())
      return error;
    if (auto error = read_tensor(file, "range.high", like, range_high_); !error.empty())
      return error;
    if ((range_low_ > range_high_).any().item<bool>())
      return "the tensor \"range.low\" has a number above that of \"range.high\"";
  }
  const auto generator_text = file.metadata.find("learner.generator");
  if (generator_text == file.metadata.end()) { // a policy's parameters alone
    begun_at_ = last_.version;
    return {};
  }
  std::istringstream text(generator_text->second);
  if (!(text >> generator_))
    return "the state of the generator is damaged";
  torch::Tensor numbers;
  if (auto error = read_tensor(file, "learner.numbers", numbers_of(last_), numbers); !error.empty())
    return error;
  const auto* number = numbers.data_ptr<double>();
  if (torch::Tensor begun_at; file.find("learner.begun_at") != nullptr) {
    if (auto error = read_tensor(file, "learner.begun_at", torch::zeros({1}, torch::kInt64), begun_at); !error.empty())
      return error;
    begun_at_ = static_cast<std::uint64_t>(begun_at.item<std::int64_t>());
    if (begun_at_ > last_.version)
      return "learning began with a later version than it has reached";
  }
  last_.policy_loss = number[0];
  last_.value_loss = number[1];
  last_.entropy = number[2];
  last_.approximate_kl = number[3];
  last_.clip_fraction = number[4];
  for (const auto& [name, parameter] : network_.named_parameters())
    if (auto error = restore_adam(file, "learner." + name, parameter); !error.empty())
      return error;
  return {};
}

std::string network_learner::restore_adam(const storage::tensor_file& file, const std::string& name,
                                          const torch::Tensor& parameter) {
  if (file.find(name + ".step") == nullptr)
    return {};
  torch::Tensor step;
  torch::Tensor mean;
  torch::Tensor square;
  auto error = read_tensor(file, name + ".step", torch::zeros({1}, torch::kInt64), step);
  if (error.empty())
    error = read_tensor(file, name + ".mean", parameter, mean);
  if (error.empty())
    error = read_tensor(file, name + ".square", parameter, square);
  if (!error.empty())
    return error;
  // Adam divides by the root of the one and by what the other yields.
  if (step.item<std::int64_t>() < 0 || (square < 0).any().item<bool>())
    return "the state of Adam for \"" + name + "\" has a negative number that cannot be";
  auto state = std::make_unique<torch::optim::AdamParamState>();
  state->step(step.item<std::int64_t>());
  state->exp_avg(mean);
  state->exp_avg_sq(square);
  optimizer_.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
  return {};
}

} // namespace dynamix::policy
