#pragma once

/// What policy training has been through: one point per update.

#include <array>
#include <limits>
#include <vector>

namespace dynamix::simulator {

struct training_point {
  double update = 0;                                        ///< 0: the fresh policy, before any
  double windows = 0;                                       ///< simulated until then, validation left out
  double transitions = 0;                                   ///< that the update learned from
  double reward = std::numeric_limits<double>::quiet_NaN(); ///< their mean
  double policy_loss = 0;
  double value_loss = 0;
  double entropy = 0; ///< in nats
  double approximate_kl = 0;
  double clip_fraction = 0;
  // Validation: how many times as fast; NaN for an update without one.
  double against_goodput = std::numeric_limits<double>::quiet_NaN();
  double against_static = std::numeric_limits<double>::quiet_NaN();
};
using training_curve = std::vector<training_point>;

struct curve_column {
  const char* name;
  double training_point::*value;
};
/// How a point is written as a row.
inline constexpr std::array<curve_column, 11> curve_columns = {{{"update", &training_point::update},
                                                                {"windows", &training_point::windows},
                                                                {"transitions", &training_point::transitions},
                                                                {"reward", &training_point::reward},
                                                                {"policy_loss", &training_point::policy_loss},
                                                                {"value_loss", &training_point::value_loss},
                                                                {"entropy", &training_point::entropy},
                                                                {"approximate_kl", &training_point::approximate_kl},
                                                                {"clip_fraction", &training_point::clip_fraction},
                                                                {"against_goodput", &training_point::against_goodput},
                                                                {"against_static", &training_point::against_static}}};

} // namespace dynamix::simulator
