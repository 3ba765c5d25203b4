#include "trainer/emulation.hpp"

#include <algorithm>

namespace dynamix::trainer {

double slowdown_at(std::span<const cluster::emulation> entries, double elapsed_seconds) {
  double slowdown = 1;
  for (const auto& entry : entries) {
    if (entry.at_seconds > elapsed_seconds)
      break;
    slowdown = entry.compute_slowdown;
  }
  return slowdown;
}

double emulation_delay_seconds(double slowdown, double compute_seconds) {
  return std::max(0.0, slowdown - 1) * std::max(0.0, compute_seconds);
}

} // namespace dynamix::trainer
