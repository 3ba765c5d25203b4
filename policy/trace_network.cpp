#include "policy/trace_network.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fmt/core.h>

namespace dynamix::policy {
namespace {

constexpr std::size_t first_biases = trace_network::hidden * trace_inputs;
constexpr std::size_t second_weights = first_biases + trace_network::hidden;
constexpr std::size_t second_biases = second_weights + trace_network::actions * trace_network::hidden;
constexpr float keep_mean = 0.9F;
constexpr float keep_square = 0.999F;
constexpr const char* networks_name = "networks";

/// The metadata that a file must agree on with this program.
std::map<std::string, std::string> shape_metadata() {
  std::string actions;
  for (const auto action : trace_actions)
    actions += fmt::format("{}{}", actions.empty() ? "" : ",", action);
  return {{"format", "dynamix-policy-1"},
          {"kind", "stigmergic"},
          {"inputs", std::to_string(trace_inputs)},
          {"hidden", std::to_string(trace_network::hidden)},
          {"actions", actions}};
}

} // namespace

trace_network::trace_network(storage::splitmix64& numbers) {
  // Uniform with He's variance 2 / inputs.
  const double bound = std::sqrt(6.0 / trace_inputs);
  for (std::size_t i = 0; i < first_biases; ++i)
    weights_[i] = static_cast<float>((static_cast<double>(numbers.next() >> 11U) * 0x1p-52 - 1) * bound);
}

// The inner loops run over what lies side by side, with no sum to wait for.
std::array<float, trace_network::hidden> trace_network::activate(const trace_view& seen) const {
  std::array<float, hidden> units{};
  std::copy_n(weights_.begin() + first_biases, hidden, units.begin());
  for (std::size_t i = 0; i < trace_inputs; ++i)
    for (std::size_t unit = 0; unit < hidden; ++unit)
      units[unit] += weights_[i * hidden + unit] * seen[i];
  for (auto& unit : units)
    unit = std::max(0.0F, unit);
  return units;
}

trace_network::values trace_network::evaluate(const trace_view& seen) const {
  const auto units = activate(seen);
  values result{};
  std::copy_n(weights_.begin() + second_biases, actions, result.begin());
  for (std::size_t unit = 0; unit < hidden; ++unit)
    for (std::size_t action = 0; action < actions; ++action)
      result[action] += weights_[second_weights + unit * actions + action] * units[unit];
  return result;
}

std::size_t trace_network::best(const trace_view& seen) const {
  const auto all = evaluate(seen);
  return static_cast<std::size_t>(std::ranges::max_element(all) - all.begin());
}

void trace_network::differentiate(const trace_view& seen, const values& slopes, parameters& gradient) const {
  const auto units = activate(seen);
  std::array<float, hidden> through{};
  for (std::size_t unit = 0; unit < hidden; ++unit) {
    const auto at = second_weights + unit * actions;
    for (std::size_t action = 0; action < actions; ++action) {
      gradient[at + action] += slopes[action] * units[unit];
      through[unit] += units[unit] > 0 ? slopes[action] * weights_[at + action] : 0;
    }
    gradient[first_biases + unit] += through[unit];
  }
  for (std::size_t action = 0; action < actions; ++action)
    gradient[second_biases + action] += slopes[action];
  for (std::size_t i = 0; i < trace_inputs; ++i)
    for (std::size_t unit = 0; unit < hidden; ++unit)
      gradient[i * hidden + unit] += through[unit] * seen[i];
}

void trace_network::prefer(std::size_t action, float value) {
  weights_[second_biases + action] = value;
}

void trace_adam::descend(trace_network::parameters& weights, const trace_network::parameters& gradient,
                         double learning_rate) {
  const auto steps = static_cast<double>(++updates);
  const auto rate = static_cast<float>(learning_rate * std::sqrt(1 - std::pow(keep_square, steps)) /
                                       (1 - std::pow(keep_mean, steps)));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    mean[i] += (1 - keep_mean) * (gradient[i] - mean[i]);
    square[i] += (1 - keep_square) * (gradient[i] * gradient[i] - square[i]);
    weights[i] -= rate * mean[i] / (std::sqrt(square[i]) + 1e-8F);
  }
}

storage::tensor_file to_file(const trace_policy& policy) {
  storage::tensor_file file;
  file.metadata = shape_metadata();
  file.metadata["masked"] = policy.masked ? "yes" : "no";
  file.metadata["version"] = std::to_string(policy.version);
  storage::tensor_record record{.name = networks_name,
                                .type = storage::element_type::f32,
                                .shape = {static_cast<std::int64_t>(policy.networks.size()),
                                          static_cast<std::int64_t>(trace_network::parameter_count)}};
  for (const auto& network : policy.networks) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(network.weights().data());
    record.data.insert(record.data.end(), bytes, bytes + sizeof(trace_network::parameters));
  }
  file.tensors.push_back(std::move(record));
  return file;
}

std::string from_file(const storage::tensor_file& file, trace_policy& result) {
  const auto get = [&file](const std::string& key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  for (const auto& [key, wanted] : shape_metadata())
    if (get(key) != wanted)
      return fmt::format("its {} is \"{}\", not \"{}\"", key, get(key), wanted);
  trace_policy read{.networks = {}, .masked = get("masked") == "yes"};
  const auto version = get("version");
  const auto [stop, error] = std::from_chars(version.data(), version.data() + version.size(), read.version);
  if (error != std::errc() || stop != version.data() + version.size())
    return "its version is \"" + version + "\", not a number";
  const auto* record = file.find(networks_name);
  if (record == nullptr || record->type != storage::element_type::f32 || record->shape.size() != 2 ||
      record->shape[0] < 1 || record->shape[0] > static_cast<std::int64_t>(trace_networks_max) ||
      record->shape[1] != static_cast<std::int64_t>(trace_network::parameter_count))
    return "the tensor \"networks\" is missing or of another shape";
  for (std::int64_t i = 0; i < record->shape[0]; ++i) {
    trace_network::parameters weights{};
    std::memcpy(weights.data(), record->data.data() + static_cast<std::size_t>(i) * sizeof weights, sizeof weights);
    if (!std::ranges::all_of(weights, [](float each) { return std::isfinite(each); }))
      return "the tensor \"networks\" has a number that is not finite";
    read.networks.emplace_back(weights);
  }
  result = std::move(read);
  return {};
}

std::string read_trace_policy(std::span<const std::uint8_t> bytes, trace_policy& result) {
  if (bytes.empty()) {
    result = {};
    return {};
  }
  storage::tensor_file file;
  if (auto problem = storage::decode(bytes, file); !problem.empty())
    return problem;
  return from_file(file, result);
}

trace_learner::trace_learner(const trace_network& start, std::uint64_t seed, trace_learning options)
    : options_(options), network_(start), target_(start), numbers_(seed) {}

void trace_learner::remember(const trace_transition& one) {
  if (memory_.size() < options_.replay) {
    memory_.push_back(one);
  } else {
    memory_[oldest_] = one;
    oldest_ = (oldest_ + 1) % memory_.size();
  }
}

void trace_learner::learn() {
  if (memory_.size() < options_.minibatch)
    return;
  trace_network::parameters gradient{};
  for (std::uint32_t i = 0; i < options_.minibatch; ++i) {
    const auto& one = memory_[numbers_.below(static_cast<std::uint32_t>(memory_.size()))];
    float wanted = one.reward;
    if (options_.discount > 0)
      wanted += static_cast<float>(options_.discount) * target_.evaluate(one.next)[network_.best(one.next)];
    const float error = network_.evaluate(one.seen)[one.action] - wanted;
    trace_network::values slopes{};
    slopes[one.action] = std::clamp(error, -1.0F, 1.0F) / static_cast<float>(options_.minibatch);
    network_.differentiate(one.seen, slopes, gradient);
  }
  adam_.descend(network_.weights(), gradient, options_.learning_rate);
  if (adam_.updates % options_.follow_every == 0)
    target_ = network_;
}

void trace_learner::learn_from(std::span<const trace_transition> lived) {
  for (std::size_t i = 0; i < lived.size(); ++i) {
    remember(lived[i]);
    if ((i + 1) % options_.steps_an_update == 0)
      learn();
  }
}

std::vector<double> trace_learner::save() const {
  std::vector<double> numbers;
  for (const auto* each : {&network_.weights(), &target_.weights(), &adam_.mean, &adam_.square})
    numbers.insert(numbers.end(), each->begin(), each->end());
  numbers.push_back(static_cast<double>(adam_.updates));
  numbers.push_back(options_.learning_rate);
  return numbers;
}

void trace_learner::restore(std::span<const double> saved) {
  for (auto* each : {&network_.weights(), &target_.weights(), &adam_.mean, &adam_.square}) {
    std::ranges::transform(saved.first(each->size()), each->begin(),
                           [](double one) { return static_cast<float>(one); });
    saved = saved.subspan(each->size());
  }
  adam_.updates = static_cast<std::uint64_t>(saved[0]);
  options_.learning_rate = saved[1];
}

} // namespace dynamix::policy
