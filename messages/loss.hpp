#pragma once

/// Losses have any sign, and not everybody knows one: NaN here. In a message 0 stands for that, as older senders have
/// it.

#include "messages/types.hpp"

#include <cmath>
#include <limits>

namespace dynamix::messages {

/// One of 0 goes as the smallest number, and one without a bound as 1e30.
inline double sent_loss(double loss) {
  if (std::isnan(loss))
    return 0;
  if (loss == 0)
    return std::numeric_limits<double>::min();
  return std::abs(loss) < max_magnitude ? loss : max_magnitude;
}

inline double received_loss(double sent) {
  return sent == 0 ? std::numeric_limits<double>::quiet_NaN() : sent;
}

} // namespace dynamix::messages
