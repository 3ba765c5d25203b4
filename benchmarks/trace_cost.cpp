/// What traces cost a worker: CPU time of one step's part with 4 and with 512 workers, in steady times and where hosts
/// slow down and recover; and how often a worker that always runs alike takes noise for a change of its speed.

#include "policy/traces.hpp"
#include "storage/splitmix64.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <numbers>
#include <vector>

namespace {

using namespace dynamix;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class normal_numbers {
public:
  explicit normal_numbers(std::uint64_t seed) : numbers_(seed) {}
  double operator()() {
    const double uniform = (static_cast<double>(numbers_.next() >> 11U) + 0.5) * 0x1p-53;
    const double angle = static_cast<double>(numbers_.next() >> 11U) * 0x1p-53;
    return std::sqrt(-2 * std::log(uniform)) * std::cos(2 * std::numbers::pi * angle);
  }

private:
  storage::splitmix64 numbers_;
};

double seconds_of(double batch) {
  return 0.02 + 0.001 * batch;
}

/// Microseconds that one worker spends in a step: its own measurement and trace, and the conclusion from all traces.
double step_cost(std::size_t workers, bool changing) {
  constexpr int steps = 2000;
  constexpr double noise_scale = 4000;
  const std::uint32_t lowest = 8;
  const std::vector<std::uint32_t> highest(workers, 512);
  std::vector<policy::trace_worker> all(workers, policy::trace_worker({.lowest = lowest, .highest = 512}));
  policy::trace_field field; // one for all: they are alike
  std::vector<std::uint32_t> in_force(workers, 64);
  std::vector<policy::trace> laid(workers);
  normal_numbers noise(1);
  double spent = 0;
  const auto lay = [&](std::size_t i, int step) {
    const double factor = changing && (step / 40 + i) % 16 == 0 ? 3 : 1;
    all[i].measure(in_force[i], factor * seconds_of(in_force[i]) * std::exp(0.03 * noise()));
    return policy::encode(all[i].choose(field, noise_scale, policy::hand_action));
  };
  std::vector<policy::trace_slot> slots(workers);
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 1; i < workers; ++i)
      slots[i] = lay(i, step);
    const double begin = processor_seconds();
    slots[0] = lay(0, step);
    for (std::size_t i = 0; i < workers; ++i)
      laid[i] = policy::decode_trace(slots[i]);
    field.deposit(laid);
    all[0].pass_barrier(field, field.slowest() + 0.02);
    in_force = policy::batches_of(laid, in_force, lowest, highest);
    spent += processor_seconds() - begin;
    for (std::size_t i = 1; i < workers; ++i)
      all[i].pass_barrier(field, field.slowest() + 0.02);
  }
  return 1e6 * spent / steps;
}

double false_alarms_an_hour(double deviation, double step_seconds) {
  constexpr int hours = 100;
  normal_numbers noise(2);
  policy::pace_tracker tracker;
  const auto steps = static_cast<std::uint64_t>(hours * 3600 / step_seconds);
  for (std::uint64_t step = 0; step < steps; ++step)
    tracker.measure(64, step_seconds * std::exp(deviation * noise()));
  return static_cast<double>(tracker.changes()) / hours;
}

} // namespace

int main() {
  for (const double deviation : {0.03, 0.1})
    for (const double step : {0.005, 0.02, 0.1, 1.0})
      std::printf("false_alarms noise %.2f step_seconds %.3f a_worker_and_hour %.3f\n", deviation, step,
                  false_alarms_an_hour(deviation, step));
  for (const std::size_t workers : {std::size_t{4}, std::size_t{512}})
    for (const bool changing : {false, true}) {
      const double microseconds = step_cost(workers, changing);
      std::printf("trace_cost workers %zu %s bytes %zu microseconds_a_step %.1f percent_of_a_step_of_100_ms %.4f\n",
                  workers, changing ? "changing" : "steady", workers * sizeof(policy::trace_slot), microseconds,
                  microseconds / 1e5 * 100);
    }
  return 0;
}
