/// What rows cost a worker: CPU time of one step's part with 2, 32 and 512 workers, in steady times and where hosts
/// slow down and recover; and how often a worker that always runs alike takes noise for a change of its speed.

#include "client/lockstep.hpp"
#include "storage/splitmix64.hpp"

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

/// Microseconds that one worker spends in a step on its row and on what follows from all. The others are played.
double step_cost(std::uint32_t workers, bool changing) {
  constexpr int steps = 500;
  const std::vector<client::member_batch> members(workers, {.initial = 64, .lowest = 8, .highest = 512});
  client::lockstep own(
      {.members = members, .samples = (1ULL << 31U) - 1, .shuffled = false, .balances = messages::balancing::shares});
  own.start_epoch();
  std::vector<policy::pace_tracker> paces(workers);
  normal_numbers noise(1);
  double spent = 0;
  for (int step = 0; step < steps; ++step) {
    client::dealt_step dealt;
    own.deal(dealt);
    own.deliver();
    const auto batches = own.batches_at(own.step()).batches;
    const auto seconds = [&](std::uint32_t i) {
      const double factor = changing && (step / 40 + i) % 16 == 0 ? 3 : 1;
      return factor * seconds_of(batches[i]) * std::exp(0.03 * noise());
    };
    std::vector<session::step_row_numbers> rows(workers);
    const double begin = processor_seconds();
    own.computed(seconds(0));
    const auto row = own.write_row({}, session::step_request::none, batches[0], 1);
    rows[0] = session::encode(row);
    spent += processor_seconds() - begin;
    for (std::uint32_t i = 1; i < workers; ++i) {
      paces[i].measure(batches[i], seconds(i));
      auto other = row;
      other.pace = paces[i].estimate(batches[i]);
      rows[i] = session::encode(other);
    }
    const double read = processor_seconds();
    session::agreement agreed;
    own.read_rows(std::span<const std::int64_t>(rows.front().data(), workers * session::step_row_columns), agreed);
    spent += processor_seconds() - read;
    own.rate(1);
    own.complete(false, 0.1);
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
      std::printf("false_alarms noise %.2f step_seconds %.3f per_worker_and_hour %.3f\n", deviation, step,
                  false_alarms_an_hour(deviation, step));
  for (const std::uint32_t workers : {2U, 32U, 512U})
    for (const bool changing : {false, true}) {
      const double microseconds = step_cost(workers, changing);
      std::printf("balance_cost workers %u %s bytes %zu microseconds_per_step %.1f percent_of_a_step_of_17_ms %.4f\n",
                  workers, changing ? "changing" : "steady", workers * sizeof(session::step_row_numbers), microseconds,
                  microseconds / 1.7e4 * 100);
    }
  return 0;
}
