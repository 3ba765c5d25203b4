#pragma once

/// When the parts of one step happened, for a trace. Seconds of the trainer's clock.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dynamix::trainer {

struct collective_times {
  double begin_seconds = 0; ///< handed to the exchange
  double end_seconds = 0;   ///< the training thread has the sum
  std::size_t bytes = 0;
};

struct step_times {
  std::uint64_t step = 0; ///< completed with it
  std::uint32_t batch = 0;
  double begin_seconds = 0;
  double end_seconds = 0;
  // One after the other from the beginning.
  double data_seconds = 0;
  double compute_seconds = 0; ///< forward, backward and the emulated slow-down
  double blocked_seconds = 0; ///< on peers and the network, behind what of the exchange computing hides
  std::vector<collective_times> collectives;
};

} // namespace dynamix::trainer
