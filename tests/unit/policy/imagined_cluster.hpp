#pragma once

/// What the workers of a cluster report whose hosts differ, slow down and report with noise.

#include "messages/early_steps.hpp"
#include "messages/types.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace dynamix::policy {

class imagined_cluster {
public:
  /// `eventful`: one reports late, one has measured nothing at first, one leaves and comes back, and the run ends.
  imagined_cluster(std::uint64_t seed, std::uint32_t workers, bool eventful) : random_(seed), eventful_(eventful) {
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      speeds_.push_back(std::uniform_real_distribution<>(500, 5000)(random_));
  }

  static constexpr std::uint64_t windows = 30; ///< of an eventful run
  bool is_here(std::uint32_t rank, std::uint64_t window) const {
    return !eventful_ || rank != 5 || window < 15 || window >= 22;
  }
  std::uint64_t generation_of(std::uint64_t window) const {
    return !eventful_ || window < 15 ? 2 : window < 22 ? 3 : 4;
  }

  /// Batch sizes are 64 until others are in force.
  messages::shard_report run(std::uint64_t window, const std::map<std::uint32_t, messages::decision>& in_force) {
    messages::shard_report all{.window = window, .generation = generation_of(window), .reports = {}};
    all.gather_seconds = 0.001 * static_cast<double>(window % 5);
    if (window % 7 == 0)
      speeds_[window % speeds_.size()] *= window % 2 == 0 ? 0.4 : 2.5;
    double slowest = 0;
    std::uint64_t global_batch = 0;
    for (std::uint32_t rank = 0; rank < speeds_.size(); ++rank)
      if (is_here(rank, window)) {
        all.reports.push_back(report_of(rank, window, in_force));
        slowest = std::max(slowest, all.reports.back().training.compute_seconds);
        global_batch += all.reports.back().batch;
      }
    for (auto& report : all.reports) {
      report.training.iteration_seconds = slowest + 0.003;
      report.training.exchange_seconds = report.training.iteration_seconds - report.training.compute_seconds;
      report.global_batch = global_batch;
      if (eventful_ && report.rank == 4 && window % 6 == 0)
        report = newest_[4]; // it is late, the one before stands in
      newest_[report.rank] = report;
    }
    all.expected = static_cast<std::uint32_t>(all.reports.size());
    return all;
  }

private:
  messages::window_report report_of(std::uint32_t rank, std::uint64_t window,
                                    const std::map<std::uint32_t, messages::decision>& in_force) {
    const double noise = std::lognormal_distribution<>(0, 0.05)(random_);
    messages::window_report report{.host = fmt::format("w{}", rank), .rank = rank, .window = window};
    report.generation = generation_of(window);
    report.first_step = messages::early_steps + 10 * (window - 1); // behind the first ones of training
    report.final = eventful_ && window == windows;
    const auto decided = in_force.find(rank);
    report.batch = decided == in_force.end() ? 64 : decided->second.batch;
    report.decision = decided == in_force.end() ? messages::decision_key{} : decided->second.key;
    const auto progress = static_cast<double>(window) / windows;
    report.training = {.steps = 10,
                       .samples = 10ULL * report.batch,
                       .accuracy = 0.2 + 0.5 * progress + 0.01 * (noise - 1),
                       .loss = 2 / std::sqrt(static_cast<double>(window)),
                       .compute_seconds = (0.004 + report.batch / speeds_[rank]) * noise,
                       .gradient_valid = window > 3 && !(eventful_ && rank == 7),
                       .sigma_norm = 1.1,
                       .sigma2_norm = 1.21,
                       .noise_scale = 4000 * noise};
    if (eventful_ && rank == 1 && window < 5)
      report.training.compute_seconds = 0; // not measured yet
    return report;
  }

  std::mt19937_64 random_;
  const bool eventful_;
  std::vector<double> speeds_;
  std::map<std::uint32_t, messages::window_report> newest_;
};

} // namespace dynamix::policy
