#pragma once

/// What a person reads of policy training. Pure.

#include "simulator/policy_validation.hpp"
#include "simulator/training_curve.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

/// Where a trained policy comes from.
struct training_origin {
  std::string command; ///< that made it; with those that went on with it
  std::string commit;
  std::uint64_t seed = 1;
  std::string policy;                 ///< its kind
  std::vector<std::string> scenarios; ///< by name
};

/// How far a training is.
struct training_pace {
  std::uint64_t update = 0;
  std::uint64_t updates = 0; ///< wanted
  std::uint64_t windows = 0;
  double windows_per_second = 0; ///< 0: not known yet
  double seconds_left = -1;      ///< negative: not known yet
};

/// "update 120/400  312,000 windows  2,345 windows/s  reward -0.123  ...  validation 1.034 of goodput  ETA 3:12"
std::string training_line(const training_pace& pace, const simulator::training_curve& curve);
/// The curve with a heading; what was not measured is empty.
std::string curve_csv(const simulator::training_curve& curve);
/// Scenario by scenario, and their geometric mean.
std::vector<std::vector<std::string>> validation_rows(const simulator::validation_scores& scores);
/// A page: where the policy comes from, its validation, and charts of the curve. `best`: of the version that was kept.
/// Empty where the program was built without the page.
std::string training_page(const training_origin& origin, const simulator::training_curve& curve,
                          const std::optional<simulator::validation_scores>& best);

} // namespace dynamix::node
