#pragma once

#include "client/gradient_noise.hpp"
#include "client/learning_rate.hpp"
#include "messages/types.hpp"

#include <cstdint>

namespace dynamix::client {

/// A diverged run shows infinities and worse, which no message may carry: they become 1e30.
double finite_or_huge(double value);

/// What the steps of the window that is open have added up to. Nothing in it waits for a device or a peer.
struct window_sums {
  std::uint64_t first_step = 0;
  std::uint32_t steps = 0;
  std::uint64_t samples = 0; ///< by this worker
  double correct = 0;        ///< samples, or parts of them where a sample has several answers
  double loss = 0;
  double control_seconds = 0;
  double gradient_norm = 0;
  // Of how many the three are known.
  std::uint64_t correct_samples = 0;
  std::uint64_t loss_samples = 0;
  std::uint32_t norm_steps = 0;
  std::uint32_t untimed_steps = 0; ///< whose times nobody knows
  // Of the steps under the batch sizes in force, which may have changed within the window.
  std::uint32_t timed_steps = 0;
  double iteration_seconds = 0;
  double compute_seconds = 0;
  double exchange_seconds = 0;
  double data_seconds = 0;

  /// The batch sizes have changed: times of before say nothing about those to come.
  void restart_times();
  /// The means over the window, with the estimates and the learning rate as they stand at its end.
  messages::training_statistics statistics(const noise_estimate& noise, const learning_rate_step& rate) const;
};

} // namespace dynamix::client
