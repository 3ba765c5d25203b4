#include "ledger/worker_course.hpp"

#include <algorithm>

namespace dynamix::ledger {

void add_steps(policy::time_split& total, const policy::time_split& each, double count) {
  total.compute_seconds += count * each.compute_seconds;
  total.cpu_wait_seconds += count * each.cpu_wait_seconds;
  total.network_seconds += count * each.network_seconds;
  total.barrier_seconds += count * each.barrier_seconds;
  total.data_seconds += count * each.data_seconds;
  total.other_seconds += count * each.other_seconds;
}

void add_training(worker_summary& sums, const messages::training_statistics& training) {
  const double timed = timed_steps(training);
  sums.samples += training.samples;
  sums.steps += training.steps;
  sums.timed_steps += timed;
  sums.step_seconds += timed * training.iteration_seconds;
  sums.compute_seconds += timed * training.compute_seconds;
  sums.exchange_seconds += timed * training.exchange_seconds;
  sums.data_seconds += timed * training.data_seconds;
}

void worker_course::add(const ledger::worker& row) {
  const auto& report = row.report;
  if (window_ && report.window <= *window_)
    return;
  window_ = report.window;
  if (reports_++ == 0)
    sums_.first_batch = lowest_batch_ = highest_batch_ = report.batch;
  same_batch_ = report.batch == sums_.last_batch ? same_batch_ + 1 : 1;
  sums_.last_batch = report.batch;
  lowest_batch_ = std::min(lowest_batch_, report.batch);
  highest_batch_ = std::max(highest_batch_, report.batch);
  elapsed_seconds_ = report.elapsed_seconds;
  steps_done_ = report.first_step + report.training.steps;
  const auto& training = report.training;
  const double steps = timed_steps(training);
  add_training(sums_, training);
  sums_.moved_samples += report.balance.moved_samples;
  sums_.speed_changes += report.balance.changes;
  if (row.stale || !is_known(row.time)) // that of a stale one was attributed for another window
    return;
  add_steps(sums_.time, row.time, steps);
  split_steps_ += steps;
  if (!report.system.valid && !report.system.training_valid)
    return;
  waited_seconds_ += steps * std::max(0.0, training.compute_seconds - row.time.compute_seconds);
  waiting_or_computing_seconds_ += steps * training.compute_seconds;
}

void worker_course::describe(worker_summary& worker) const {
  auto made = sums_;
  made.host = worker.host;
  made.rank = worker.rank;
  made.compute_slowdown = worker.compute_slowdown;
  made.slowdown_changes = worker.slowdown_changes;
  made.time = {};
  if (split_steps_ > 0)
    add_steps(made.time, sums_.time, 1 / split_steps_);
  if (waiting_or_computing_seconds_ > 0)
    made.cpu_wait_share = waited_seconds_ / waiting_or_computing_seconds_;
  if (made.steps > 0)
    made.mean_batch = static_cast<double>(made.samples) / made.steps;
  if (made.timed_steps > 0)
    for (double* total : {&made.step_seconds, &made.compute_seconds, &made.exchange_seconds, &made.data_seconds})
      *total /= made.timed_steps;
  worker = std::move(made);
}

} // namespace dynamix::ledger
