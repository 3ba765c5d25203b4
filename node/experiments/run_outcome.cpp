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

} // namespace

std::string to_json(const run_outcome& outcome) {
  const json object = {{"fingerprint", fmt::format("{:x}", outcome.fingerprint)},
                       {"policy", outcome.policy},
                       {"static_batch", outcome.static_batch},
                       {"seed", outcome.seed},
                       {"failure", outcome.failure},
                       {"seconds", outcome.seconds},
                       {"seconds_to_target", outcome.seconds_to_target},
                       {"final_accuracy", outcome.final_accuracy},
                       {"samples", outcome.samples},
                       {"windows", outcome.windows},
                       {"decisions", outcome.decisions},
                       {"changes", outcome.changes},
                       {"interventions", outcome.interventions},
                       {"reward", outcome.reward},
                       {"episode_rewards", outcome.episode_rewards},
                       {"compute_seconds", outcome.compute_seconds},
                       {"exchange_seconds", outcome.exchange_seconds},
                       {"data_seconds", outcome.data_seconds},
                       {"series", to_object(outcome.series)}};
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<run_outcome> parse_outcome(const std::string& text) {
  try {
    const auto object = json::parse(text);
    return run_outcome{.fingerprint = std::stoull(object.at("fingerprint").get<std::string>(), nullptr, 16),
                       .policy = object.at("policy").get<std::string>(),
                       .static_batch = object.at("static_batch").get<std::uint32_t>(),
                       .seed = object.at("seed").get<std::uint64_t>(),
                       .failure = object.at("failure").get<std::string>(),
                       .seconds = object.at("seconds").get<double>(),
                       .seconds_to_target = object.at("seconds_to_target").get<double>(),
                       .final_accuracy = object.at("final_accuracy").get<double>(),
                       .samples = object.at("samples").get<std::uint64_t>(),
                       .windows = object.at("windows").get<std::uint64_t>(),
                       .decisions = object.at("decisions").get<std::uint64_t>(),
                       .changes = object.at("changes").get<std::uint64_t>(),
                       .interventions = object.at("interventions").get<std::uint64_t>(),
                       .reward = object.value("reward", 0.0), // older programs wrote neither
                       .episode_rewards = object.value("episode_rewards", std::vector<double>()),
                       .compute_seconds = object.at("compute_seconds").get<double>(),
                       .exchange_seconds = object.at("exchange_seconds").get<double>(),
                       .data_seconds = object.at("data_seconds").get<double>(),
                       .series = to_series(object.at("series"))};
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const std::logic_error&) { // a fingerprint that is not a number
    return std::nullopt;
  }
}

} // namespace dynamix::node
