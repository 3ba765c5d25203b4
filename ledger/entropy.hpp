#pragma once

#include <cmath>
#include <limits>
#include <vector>

namespace dynamix::ledger {

/// Of a policy's probabilities; NaN where there are no odds to speak of.
inline double entropy_nats(const std::vector<float>& probabilities) {
  if (probabilities.size() < 2)
    return std::numeric_limits<double>::quiet_NaN();
  double entropy = 0;
  for (const double each : probabilities)
    entropy -= each > 0 ? each * std::log(each) : 0;
  return entropy;
}

} // namespace dynamix::ledger
