#include "trainer/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dynamix::trainer {

double schedule_factor(const cluster::training& training, std::uint64_t done, std::uint64_t step_samples,
                       std::uint64_t wanted) {
  const std::uint64_t warmup = training.warmup_samples;
  // To the end of the step while it rises, so that the first step does something; from its beginning while it falls, so
  // that the last one does.
  const double rise =
      warmup == 0 ? 1 : std::min(1.0, static_cast<double>(done + step_samples) / static_cast<double>(warmup));
  if (training.schedule == cluster::schedule_kind::constant || done <= warmup || wanted <= warmup)
    return rise;
  const double part = std::min(1.0, static_cast<double>(done - warmup) / static_cast<double>(wanted - warmup));
  return rise * (1 + std::cos(std::numbers::pi * part)) / 2;
}

} // namespace dynamix::trainer
