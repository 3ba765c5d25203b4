#include "node/experiments/run_outcome.hpp"

#include <nlohmann/json.hpp>

#include <fmt/core.h>
#include <limits>

namespace dynamix::node {
namespace {

using json = nlohmann::ordered_json;

/// JSON knows no NaN: null stands for it.
std::vector<double> numbers_of(const json& array) {
  std::vector<double> numbers;
  for (const auto& each : array)
    numbers.push_back(each.is_null() ? std::numeric_limits<double>::quiet_NaN() : each.get<double>());
  return numbers;
}

json to_object(const window_series& windows) {
  json object = json::object();
  for (std::size_t i = 0; i < columns; ++i)
    object[name_of(static_cast<column>(i))] = windows.of(static_cast<column>(i));
  return object;
}

window_series to_windows(const json& object) {
  window_series windows;
  for (std::size_t i = 0; i < columns; ++i) {
    const auto values = numbers_of(object.at(name_of(static_cast<column>(i))));
    windows.rows.resize(i == 0 ? values.size() : windows.rows.size());
    for (std::size_t row = 0; row < std::min(values.size(), windows.rows.size()); ++row)
      windows.rows[row][i] = values[row];
  }
  return windows;
}

json to_object(const run_series& series) {
  return {{"accuracy_seconds", series.accuracy_seconds},
          {"accuracy", series.accuracy},
          {"batch_seconds", series.batch_seconds},
          {"batch_names", series.batch_names},
          {"batches", series.batches},
          {"windows", to_object(series.windows)}};
}

run_series to_series(const json& object) {
  run_series series{.accuracy_seconds = numbers_of(object.at("accuracy_seconds")),
                    .accuracy = numbers_of(object.at("accuracy")),
                    .batch_seconds = numbers_of(object.at("batch_seconds")),
                    .batch_names = object.at("batch_names").get<std::vector<std::string>>(),
                    .batches = {},
                    .windows = to_windows(object.at("windows"))};
  for (const auto& line : object.at("batches"))
    series.batches.push_back(numbers_of(line));
  return series;
}

/// Those that are written as they are.
template <class Outcome, class Visit>
void for_each_field(Outcome& of, const Visit& visit) {
  visit("policy", of.policy);
  visit("static_batch", of.static_batch);
  visit("seed", of.seed);
  visit("failure", of.failure);
  visit("seconds", of.seconds);
  visit("seconds_to_target", of.seconds_to_target);
  visit("final_accuracy", of.final_accuracy);
  visit("samples", of.samples);
  visit("windows", of.windows);
  visit("decisions", of.decisions);
  visit("changes", of.changes);
  visit("interventions", of.interventions);
  visit("reward", of.reward);
  visit("episode_rewards", of.episode_rewards);
  visit("compute_seconds", of.compute_seconds);
  visit("exchange_seconds", of.exchange_seconds);
  visit("data_seconds", of.data_seconds);
}

} // namespace

std::string to_json(const run_outcome& outcome) {
  json object = {{"fingerprint", fmt::format("{:x}", outcome.fingerprint)}};
  for_each_field(outcome, [&](const char* name, const auto& field) { object[name] = field; });
  object["series"] = to_object(outcome.series);
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<run_outcome> parse_outcome(const std::string& text) {
  try {
    const auto object = json::parse(text);
    run_outcome outcome{.fingerprint = std::stoull(object.at("fingerprint").get<std::string>(), nullptr, 16)};
    for_each_field(outcome, [&](const std::string& name, auto& field) {
      const bool may_lack = name == "reward" || name == "episode_rewards"; // older programs wrote neither
      if (!may_lack || object.contains(name))
        object.at(name).get_to(field);
    });
    outcome.series = to_series(object.at("series"));
    return outcome;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const std::logic_error&) { // a fingerprint that is not a number
    return std::nullopt;
  }
}

} // namespace dynamix::node
