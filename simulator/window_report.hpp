#pragma once

/// What the workers would report of a window that has run. Internal to the room.

#include "messages/types.hpp"
#include "simulator/learning.hpp"
#include "simulator/random_stream.hpp"
#include "simulator/scenario.hpp"

#include <cstdint>

namespace dynamix::simulator {

/// Of one worker over the window's steps.
struct worker_sums {
  std::uint64_t samples = 0;
  double work = 0;       ///< seconds of a core
  double queued = 0;     ///< seconds in which others had the core
  double congestion = 0; ///< factors
  double computing = 0;  ///< t_i, seconds; of the timed steps
};

/// Of the whole window.
struct window_summary {
  std::uint64_t window = 0;
  std::uint64_t generation = 0;
  std::size_t workers = 0;
  std::uint64_t first_step = 0;
  std::uint32_t steps = 0;
  std::uint32_t timed_steps = 0;  ///< those under the batch sizes in force at its end
  double timed_seconds = 0;       ///< of the timed steps
  double seconds = 0;             ///< of all steps
  std::uint64_t global_batch = 0; ///< at its end
  std::uint64_t samples = 0;      ///< of the run, up to its end
  double elapsed_seconds = 0;     ///< of the run, at its end
  double accuracy = 0;            ///< true one of its training batches
  double phi = 0;                 ///< true one at its end
  double measured_phi = 0;
  double sent_bytes = 0; ///< by a worker in a step
};

/// Measures phi as the trainer does: averages that retain 0.97 a step, so the errors of successive windows are alike.
class noise_scale_meter {
public:
  explicit noise_scale_meter(random_stream numbers) : numbers_(numbers), error_(numbers_.normal()) {}
  /// phi * exp(deviation * n), n standard normal with correlation 0.97^steps to the last.
  double measure(double phi, double deviation, std::uint32_t steps);

private:
  random_stream numbers_;
  double error_;
};

class report_writer {
public:
  struct worker {
    const cluster::host& host;
    std::uint32_t rank;
    std::uint32_t batch;
    const worker_sums& sums;
  };

  report_writer(const scenario& what, const simulator::learning& learning, const window_summary& summary)
      : what_(what), learning_(learning), summary_(summary) {}

  /// Complete but for the decision. `numbers`: of the worker's measurements.
  messages::window_report write(const worker& of, random_stream& numbers) const;

private:
  messages::training_statistics training(const worker& of, random_stream& numbers) const;
  messages::network_statistics network(const worker& of) const;
  messages::system_statistics system(const worker& of) const;

  const scenario& what_;
  const simulator::learning& learning_;
  const window_summary& summary_;
};

} // namespace dynamix::simulator
