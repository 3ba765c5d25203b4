#include "trainer/optimizer.hpp"

#include "trainer/tensor_records.hpp"

#include <fmt/core.h>
#include <map>
#include <utility>

namespace dynamix::trainer {
namespace {

using torch::optim::AdamParamState;
using torch::optim::AdamWParamState;
using torch::optim::SGDParamState;

void* state_key(const torch::Tensor& parameter) {
  return parameter.unsafeGetTensorImpl();
}

std::unique_ptr<torch::optim::Optimizer> create(const cluster::training& options,
                                                const std::vector<torch::Tensor>& parameters) {
  switch (options.optimizer) {
  case cluster::optimizer_kind::sgd:
    return std::make_unique<torch::optim::SGD>(
        parameters,
        torch::optim::SGDOptions(options.learning_rate).momentum(options.momentum).weight_decay(options.weight_decay));
  case cluster::optimizer_kind::adam:
    return std::make_unique<torch::optim::Adam>(
        parameters, torch::optim::AdamOptions(options.learning_rate).weight_decay(options.weight_decay));
  case cluster::optimizer_kind::adamw:
    return std::make_unique<torch::optim::AdamW>(
        parameters, torch::optim::AdamWOptions(options.learning_rate).weight_decay(options.weight_decay));
  }
  TORCH_CHECK(false, "unknown optimiser");
}

/// The tensors of one parameter's state under their names, and its step count where it has one.
struct parameter_state {
  std::vector<std::pair<std::string, torch::Tensor>> tensors;
  std::int64_t step = 0;
};

template <class Adam>
parameter_state describe_adam(const Adam& state) {
  return {{{"exp_avg", state.exp_avg()}, {"exp_avg_sq", state.exp_avg_sq()}}, state.step()};
}

parameter_state describe(cluster::optimizer_kind kind, const torch::optim::OptimizerParamState& state) {
  switch (kind) {
  case cluster::optimizer_kind::sgd:
    return {{{"momentum", static_cast<const SGDParamState&>(state).momentum_buffer()}}, 0};
  case cluster::optimizer_kind::adam:
    return describe_adam(static_cast<const AdamParamState&>(state));
  case cluster::optimizer_kind::adamw:
    return describe_adam(static_cast<const AdamWParamState&>(state));
  }
  return {};
}

template <class Adam>
std::unique_ptr<torch::optim::OptimizerParamState> make_adam(torch::Tensor average, torch::Tensor square_average,
                                                             std::int64_t step) {
  auto state = std::make_unique<Adam>();
  state->exp_avg(std::move(average));
  state->exp_avg_sq(std::move(square_average));
  state->step(step);
  return state;
}

} // namespace

bool is_adaptive(cluster::optimizer_kind kind) {
  return kind != cluster::optimizer_kind::sgd;
}

optimizer::optimizer(const cluster::training& options, std::vector<torch::Tensor> parameters)
    : kind_(options.optimizer), parameters_(std::move(parameters)), optimizer_(create(options, parameters_)) {}

void optimizer::set_learning_rate(double learning_rate) {
  for (auto& group : optimizer_->param_groups())
    group.options().set_lr(learning_rate);
}

void optimizer::step() {
  optimizer_->step();
}

std::vector<storage::tensor_record> optimizer::state() const {
  std::vector<storage::tensor_record> records;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto found = optimizer_->state().find(state_key(parameters_[i]));
    if (found == optimizer_->state().end())
      continue;
    const auto suffix = fmt::format(".{}", i);
    const auto state = describe(kind_, *found->second);
    for (const auto& [name, tensor] : state.tensors)
      if (tensor.defined())
        records.push_back(to_record(name + suffix, tensor));
    if (is_adaptive(kind_))
      records.push_back(to_record("step" + suffix, torch::tensor(state.step, torch::kInt64)));
  }
  return records;
}

std::string optimizer::restore(const std::vector<storage::tensor_record>& records) {
  const bool adaptive = is_adaptive(kind_);
  const std::vector<std::string> names =
      adaptive ? std::vector<std::string>{"exp_avg", "exp_avg_sq"} : std::vector<std::string>{"momentum"};
  // Either nothing (before the first step, or without momentum) or everything for every parameter.
  const std::size_t expected = records.empty() ? 0 : parameters_.size() * (names.size() + (adaptive ? 1 : 0));
  if (records.size() != expected)
    return fmt::format("it has {} tensors for the optimiser, expected {}", records.size(), expected);
  std::map<std::string, const storage::tensor_record*> by_name;
  for (const auto& record : records)
    by_name[record.name] = &record;

  std::vector<std::unique_ptr<torch::optim::OptimizerParamState>> states;
  for (std::size_t i = 0; i < parameters_.size() && expected > 0; ++i) {
    const auto suffix = fmt::format(".{}", i);
    std::vector<torch::Tensor> tensors;
    for (const auto& name : names) {
      const auto found = by_name.find(name + suffix);
      const auto* record = found == by_name.end() ? nullptr : found->second;
      if (auto problem = check_record(record, name + suffix, parameters_[i]); !problem.empty())
        return problem;
      tensors.push_back(to_tensor(*record).to(parameters_[i].device()));
    }
    if (!adaptive) {
      auto state = std::make_unique<SGDParamState>();
      state->momentum_buffer(tensors[0]);
      states.push_back(std::move(state));
      continue;
    }
    const auto found = by_name.find("step" + suffix);
    const auto* record = found == by_name.end() ? nullptr : found->second;
    if (auto problem = check_record(record, "step" + suffix, torch::tensor(std::int64_t{0})); !problem.empty())
      return problem;
    const auto step = to_tensor(*record).item<std::int64_t>();
    if (step < 1)
      return fmt::format("its tensor \"step{}\" is {}, expected at least 1", suffix, step);
    states.push_back(kind_ == cluster::optimizer_kind::adam ? make_adam<AdamParamState>(tensors[0], tensors[1], step)
                                                            : make_adam<AdamWParamState>(tensors[0], tensors[1], step));
  }
  optimizer_->state().clear();
  for (std::size_t i = 0; i < states.size(); ++i)
    optimizer_->state()[state_key(parameters_[i])] = std::move(states[i]);
  return {};
}

} // namespace dynamix::trainer
