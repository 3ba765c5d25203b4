#pragma once

/// How long this machine computes for a step, as a function of the batch size: the figures of a device profile.
/// Includes no Torch.

#include "cluster/cluster_file.hpp"
#include "trainer/clock.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dynamix::trainer {

struct step_time_request {
  cluster::training training;
  std::uint64_t seed = 1;
  std::vector<std::uint32_t> batches; ///< >= 1
  double seconds_per_batch = 1;       ///< spent on each, > 0
  std::uint32_t workers = 2;          ///< of the group, >= 1; one alone does nothing that only an exchange needs
};

struct measured_step {
  std::uint32_t batch = 0;
  std::uint64_t steps = 0; ///< measured
  double seconds = 0;      ///< of a step, their median
};

struct step_time_measurement {
  std::string problem;              ///< empty: it went well
  bool cuda = false;                ///< measured on a CUDA device, else on the CPU
  std::vector<measured_step> steps; ///< rising in batch
  double evaluation_seconds = 0;    ///< of a sample in an evaluation
  std::uint32_t batch_highest = 0;  ///< the largest that fitted the memory; 0: all did
};

/// Runs whole training steps on the real data set: fetch the batch, forward, backward, the gradients' way into their
/// buckets, optimiser; no exchange. And evaluations, of some samples each. Every batch size is warmed up, then all are
/// measured in five rounds, up and down by turns, so that a machine that heats up or is disturbed for a while bends no
/// part of the curve. Where the memory ends, larger batch sizes are left out. `progress` hears what is being done, at
/// most a few times per second.
step_time_measurement measure_step_times(const step_time_request& request, clock& time,
                                         const std::function<void(const std::string&)>& progress);

} // namespace dynamix::trainer
