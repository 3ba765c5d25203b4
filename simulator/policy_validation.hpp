#pragma once

/// How fast a policy trains, against rivals on the same scenarios and seeds.

#include "simulator/scenario.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::simulator {

struct validation_row {
  std::string scenario;
  double against_goodput = 0; ///< effective epochs per second over the rival's; geometric mean over the seeds
  double against_static = 0;
};

struct validation_scores {
  std::vector<validation_row> rows; ///< in the scenarios' order
  double against_goodput = 0;       ///< geometric mean over the rows
  double against_static = 0;
};

class policy_validation {
public:
  static constexpr std::array<std::uint64_t, 2> seeds = {7001, 7002};
  /// What a run that failed counts as, in shares of its rival's speed.
  static constexpr double failed = 0.001;

  /// Runs the rivals, once. The scenarios run as they are, not randomised, in mode `infer`. Throws std::runtime_error
  /// when a rival's run fails.
  policy_validation(std::vector<scenario> scenarios, std::uint32_t jobs);

  /// `parameters`: of a policy_version. The same for any number of jobs.
  validation_scores score(const std::vector<std::uint8_t>& parameters) const;

private:
  /// Effective epochs a second of every run, scenario by scenario; 0 for one that failed.
  std::vector<double> measure(const std::vector<scenario>& scenarios,
                              const std::vector<std::uint8_t>& parameters) const;
  std::vector<double> measure_rival(cluster::policy_kind rival) const;

  std::vector<scenario> scenarios_;
  std::uint32_t jobs_;
  std::vector<double> goodput_;
  std::vector<double> static_;
};

} // namespace dynamix::simulator
