#include "trainer/weight_average.hpp"

#include "trainer/tensor_records.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>

namespace dynamix::trainer {

weight_average::weight_average(const torch::nn::Module& model, std::uint64_t horizon)
    : parameters_(model.named_parameters()), horizon_(static_cast<double>(horizon)) {
  restore({});
}

void weight_average::follow(std::uint64_t step_samples, std::uint64_t done) {
  const torch::NoGradGuard no_gradients;
  const auto step = static_cast<double>(step_samples);
  const double share = std::max(-std::expm1(-step / horizon_), step / (step + static_cast<double>(done)));
  for (std::size_t i = 0; i < averages_.size(); ++i)
    averages_[i].lerp_(parameters_[i].value(), share);
}

void weight_average::swap() {
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const auto held = parameters_[i].value().data();
    parameters_[i].value().set_data(averages_[i]);
    averages_[i] = held;
  }
}

std::vector<storage::tensor_record> weight_average::state() const {
  std::vector<storage::tensor_record> records;
  for (std::size_t i = 0; i < averages_.size(); ++i)
    records.push_back(to_record(parameters_[i].key(), averages_[i]));
  return records;
}

std::string weight_average::restore(const std::vector<storage::tensor_record>& records) {
  if (horizon_ == 0)
    return {};
  if (!records.empty() && records.size() != parameters_.size())
    return fmt::format("it has {} averaged weights, expected {}", records.size(), parameters_.size());
  std::vector<torch::Tensor> restored;
  for (const auto& parameter : parameters_) {
    if (records.empty()) {
      restored.push_back(parameter.value().detach().clone());
      continue;
    }
    const auto record = std::ranges::find(records, parameter.key(), &storage::tensor_record::name);
    if (auto problem = check_record(record == records.end() ? nullptr : &*record, parameter.key(), parameter.value());
        !problem.empty())
      return problem;
    restored.push_back(to_tensor(*record).to(parameter.value().device()));
  }
  averages_ = std::move(restored);
  return {};
}

} // namespace dynamix::trainer
