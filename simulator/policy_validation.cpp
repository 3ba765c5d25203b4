#include "simulator/policy_validation.hpp"

#include "simulator/parallel.hpp"
#include "simulator/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dynamix::simulator {

policy_validation::policy_validation(std::vector<scenario> scenarios, std::uint32_t jobs)
    : scenarios_(std::move(scenarios)), jobs_(jobs) {
  for (auto& each : scenarios_)
    each.file.arbitrator.mode = cluster::policy_mode::infer;
  goodput_ = measure_rival(cluster::policy_kind::goodput);
  static_ = measure_rival(cluster::policy_kind::static_batch);
}

std::vector<double> policy_validation::measure_rival(cluster::policy_kind rival) const {
  auto theirs = scenarios_;
  for (auto& each : theirs)
    each.file.arbitrator.policy = rival;
  const auto speeds = measure(theirs, {});
  for (std::size_t run = 0; run < speeds.size(); ++run)
    if (speeds[run] <= 0)
      throw std::runtime_error(theirs[run / seeds.size()].file.name + ": the run under \"" +
                               std::string(cluster::to_string(rival)) + "\", to compare with, failed");
  return speeds;
}

std::vector<double> policy_validation::measure(const std::vector<scenario>& scenarios,
                                               const std::vector<std::uint8_t>& parameters) const {
  std::vector<double> speeds(scenarios.size() * seeds.size());
  for_each_index(speeds.size(), jobs_, [&](std::size_t run) {
    simulation simulated(scenarios[run / seeds.size()], parameters, seeds[run % seeds.size()]);
    while (!simulated.done())
      simulated.advance();
    const auto result = simulated.result();
    if (result.failure.empty() && result.seconds > 0)
      speeds[run] = result.progress / result.seconds;
  });
  return speeds;
}

validation_scores policy_validation::score(const std::vector<std::uint8_t>& parameters) const {
  const auto speeds = measure(scenarios_, parameters);
  validation_scores scores;
  const auto log_ratio = [&](std::size_t run, const std::vector<double>& rival) {
    return std::log(std::max(speeds[run] / rival[run], failed));
  };
  double goodput_sum = 0;
  double static_sum = 0;
  for (std::size_t i = 0; i < scenarios_.size(); ++i) {
    double goodput_log = 0;
    double static_log = 0;
    for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
      goodput_log += log_ratio(i * seeds.size() + seed, goodput_) / seeds.size();
      static_log += log_ratio(i * seeds.size() + seed, static_) / seeds.size();
    }
    scores.rows.push_back({scenarios_[i].file.name, std::exp(goodput_log), std::exp(static_log)});
    goodput_sum += goodput_log;
    static_sum += static_log;
  }
  const auto count = static_cast<double>(scenarios_.size());
  scores.against_goodput = std::exp(goodput_sum / count);
  scores.against_static = std::exp(static_sum / count);
  return scores;
}

} // namespace dynamix::simulator
