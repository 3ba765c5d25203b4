#include "policy/traces.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace dynamix::policy {
namespace {

constexpr double longest_arrival = 1e6;     ///< seconds, that a trace may speak of
constexpr double largest_batch = 1e7;       ///< that a trace may name; a float holds it to the sample
constexpr double evaporation = 0.05;        ///< of the density, a step
constexpr double spreading = 0.1;           ///< of a cell, to each neighbour, a step
constexpr double remembered = 0.95;         ///< of trembling and of what the barrier did
constexpr double longest_shift = 0.35;      ///< of the logarithm of the aim, a step
constexpr double shift_gain = 0.5;          ///< of Newton's step
constexpr double settled_within = 0.01;     ///< of the logarithm of its time a worker changes nothing
constexpr double settled_deviations = 0.25; ///< and within so many of its noise's
constexpr double bound_rising = 0.04;       ///< a step: a worker that has slowed down is soon itself again
constexpr double change_factor = 8;         ///< of a batch size, a step
constexpr double central_weight = 0.1;      ///< of the logarithm of a decision's global batch
constexpr double log_change_told = 13.8;    ///< a factor of a million
constexpr double longest_correction = 0.7;  ///< of the logarithm of the aim

/// log2 of goodput where a batch of `total` takes a time that follows the slowest worker's by `elasticity`.
double log_goodput(double total, double slowest, double noise_scale, double elasticity) {
  const double efficiency = noise_scale < 0 ? 1 : 1 / (noise_scale + total);
  return std::log2(total * efficiency) - elasticity * std::log2(slowest);
}

} // namespace

trace_slot encode(const trace& laid) {
  const auto rounded = [](double value) { return static_cast<float>(std::clamp(value, 0.0, longest_arrival)); };
  return {static_cast<float>(laid.batch), rounded(laid.arrival), rounded(laid.aim), rounded(laid.expected),
          static_cast<float>(std::clamp(laid.supply, 0.0, 1e12))};
}

trace decode_trace(std::span<const float, trace_floats> slot) {
  const auto within = [](float value, double most) { return value >= 0 && value <= most; }; // false for what is none
  if (!within(slot[0], largest_batch) || !within(slot[1], longest_arrival) || slot[1] == 0 ||
      !within(slot[2], longest_arrival) || slot[2] == 0 || !within(slot[3], longest_arrival) || slot[3] == 0 ||
      !within(slot[4], 1e12))
    return {};
  return {.batch = static_cast<std::uint32_t>(slot[0]),
          .arrival = slot[1],
          .aim = slot[2],
          .expected = slot[3],
          .supply = slot[4]};
}

std::vector<std::uint32_t> batches_of(std::span<const trace> laid, const std::vector<std::uint32_t>& in_force,
                                      std::uint32_t lowest, std::span<const std::uint32_t> highest) {
  if (laid.size() != in_force.size() || std::ranges::count(laid, 0U, &trace::batch) > 0)
    return in_force;
  std::vector<std::uint32_t> next;
  for (std::size_t i = 0; i < laid.size(); ++i)
    next.push_back(std::clamp(laid[i].batch, lowest, highest[i]));
  return next;
}

std::size_t trace_field::cell_of(double arrival, double slowest) {
  const double share = slowest > 0 ? arrival / slowest : 1;
  return static_cast<std::size_t>(std::clamp(std::ceil(share * cells) - 1, 0.0, static_cast<double>(cells - 1)));
}

void trace_field::deposit(std::span<const trace> laid) {
  workers_ = laid.size();
  slowest_ = but_one_ = 0;
  for (const auto& each : laid) {
    but_one_ = std::max(but_one_, std::min(slowest_, each.arrival));
    slowest_ = std::max(slowest_, each.arrival);
  }
  complete_ = !laid.empty() && std::ranges::count(laid, 0U, &trace::batch) == 0;
  if (!complete_) {
    expectations_.clear();
    return;
  }
  const double aim_before = aim_;
  const auto before = arrivals_;
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const double left = before[cell == 0 ? 0 : cell - 1];
    const double right = before[cell + 1 == cells ? cell : cell + 1];
    arrivals_[cell] = (1 - evaporation) * (before[cell] + spreading * (left + right - 2 * before[cell]));
  }
  double aims = 0;
  double expectations = 0;
  std::size_t free = 0;
  double highest_aim = 0;
  double tremors = 0;
  double delay = 0;
  supply_ = 0;
  double bound = 0; // seconds that the slowest takes whom its lowest batch size holds
  passed_total_ = total_;
  total_ = 0;
  for (std::size_t i = 0; i < laid.size(); ++i) {
    const auto& each = laid[i];
    arrivals_[cell_of(each.arrival, slowest_)] += evaporation / static_cast<double>(workers_);
    if (each.supply > 0) {
      aims += std::log(each.aim);
      expectations += std::log(each.expected);
      ++free;
    } else {
      bound = std::max(bound, each.aim);
    }
    highest_aim = std::max(highest_aim, each.aim);
    supply_ += each.supply;
    total_ += each.batch;
    if (i >= expectations_.size())
      continue;
    tremors += std::min(1.0, std::abs(std::log(each.arrival / expectations_[i]))) / static_cast<double>(workers_);
    delay = std::max(delay, std::log(each.arrival / std::max(expectations_[i], aim_before)));
  }
  if (expectations_.size() == laid.size()) {
    trembling_ += (1 - remembered) * (tremors - trembling_);
    delays_[delayed_steps_++ % delays_.size()] = delay;
    auto ordered = delays_;
    auto* const middle = ordered.data() + ordered.size() / 2;
    std::nth_element(ordered.data(), middle, ordered.data() + ordered.size());
    lateness_ = *middle;
  }
  expectations_.resize(laid.size());
  std::ranges::transform(laid, expectations_.begin(), &trace::expected);
  aim_ = free > 0 ? std::exp(aims / static_cast<double>(free)) : highest_aim;
  expected_ = free > 0 ? std::exp(expectations / static_cast<double>(free)) : highest_aim;
  bound *= std::exp(-lateness_); // who aims earlier will be as late by others' delays
  bound_ = bound < bound_ ? bound : bound_ + bound_rising * (bound - bound_);
  if (free > 0) {
    aim_ = std::max(aim_, bound);
    expected_ = std::max(expected_, bound);
  }
}

double trace_field::total_at_aim() const {
  return std::max(total_ + supply_ * (aim_ - expected_), static_cast<double>(workers_));
}

double trace_field::centre() const {
  double mass = 0;
  double weighted = 0;
  for (std::size_t cell = 0; cell < cells; ++cell) {
    mass += arrivals_[cell];
    weighted += arrivals_[cell] * (static_cast<double>(cell) + 0.5) / cells;
  }
  return mass > 0 ? weighted / mass : 1;
}

double wish_shift(double log_change) {
  return std::clamp(central_weight * log_change, -longest_correction, longest_correction);
}

void central_wish::close(std::uint64_t window, std::uint64_t total) {
  if (total > 0)
    closed_[window % closed_.size()] = {window, std::log(static_cast<double>(total)) - correction_};
}

void central_wish::decide(std::uint64_t window, std::uint64_t total) {
  const auto& closed = closed_[window % closed_.size()];
  if (closed.window != window || total == 0)
    return;
  correction_ = wish_shift(std::log(static_cast<double>(total)) - closed.neutral);
}

void trace_worker::measure(std::uint32_t batch, double seconds) {
  batch_ = batch;
  seconds_ = seconds;
  surprise_ = pace_.measured() ? std::log(seconds / pace_.seconds(batch)) : 0;
  pace_.measure(batch, seconds);
  since_change_ *= remembered;
  if (pace_.changes() != changes_)
    since_change_ = 1;
  changes_ = pace_.changes();
}

void trace_worker::pass_barrier(const trace_field& field, double step_seconds) {
  if (!field.complete() || step_seconds <= 0)
    return; // the slowest is not known
  step_change_ = step_seconds_ > 0 ? std::log(step_seconds / step_seconds_) : 0;
  unchosen_ = next_unchosen_;
  const double x = std::log(field.slowest());
  if (step_seconds_ == 0)
    barrier_ = x;
  exchange_.measure(field.slowest(), step_seconds);
  elasticity_ = exchange_.elasticity(field.ready() ? field.aim() : field.slowest());
  barrier_ += 0.3 * (x - barrier_);
  step_seconds_ = step_seconds;
}

double trace_worker::urge(const trace_field& field, double noise_scale) const {
  if (!field.ready() || noise_scale < 0 || field.supply() <= 0)
    return 0;
  const double total = field.total_at_aim();
  const double worth_of_time = field.supply() * field.aim() * noise_scale / (total * (noise_scale + total));
  return std::log2(std::max(worth_of_time, 1e-6) / elasticity());
}

double trace_worker::least_shift(const trace_field& field) const {
  const double change = (bounds_.least_total - field.total_at_aim()) / (field.supply() * field.aim());
  return std::log(std::max(1 + change, std::exp(-longest_shift)));
}

double trace_worker::shift(const trace_field& field, double noise_scale, double correction) const {
  if (!field.ready() || noise_scale < 0 || field.supply() <= 0)
    return 0;
  // What Newton's method says: the urge falls by so much with the logarithm of the aim.
  const double total = field.total_at_aim();
  const double slope = field.supply() * field.aim() / total * (1 + total / (noise_scale + total)) - 1;
  const double wanted = std::log(2.0) * urge(field, noise_scale) / std::max(slope, 0.5) + correction;
  return std::clamp(std::max(shift_gain * wanted, least_shift(field)), -longest_shift, longest_shift);
}

double trace_worker::reference(const trace_field& field) const {
  if (masked_)
    return step_seconds_ > 0 ? std::exp(barrier_) : pace_.seconds(batch_);
  return field.ready() ? field.aim() : pace_.seconds(batch_);
}

std::uint32_t trace_worker::batch_for(double seconds) const {
  const double fits = std::floor(pace_.batch_within(seconds));
  const double from = std::max(1.0, static_cast<double>(batch_));
  return static_cast<std::uint32_t>(std::clamp<double>(std::clamp(fits, from / change_factor, from * change_factor),
                                                       bounds_.lowest, bounds_.highest));
}

trace trace_worker::choose(const trace_field& field, double noise_scale, std::size_t action, double correction) {
  if (!measured())
    return {.batch = 0, .arrival = seconds_, .aim = seconds_, .expected = seconds_};
  double hand = reference(field) * (masked_ ? 1 : std::exp(shift(field, noise_scale, correction)));
  if (!masked_)
    hand = std::max(hand, field.bound());
  const double aim = hand * trace_actions[action];
  action_ = action;
  next_unchosen_ = settled(hand) ? batch_ : batch_for(hand);
  trace laid{.batch = next_unchosen_, .arrival = seconds_, .aim = hand, .expected = aim};
  if (action != hand_action)
    laid.batch = batch_for(aim);
  constexpr double around = 1.25;
  const auto at = static_cast<double>(laid.batch);
  const double slope = (pace_.seconds(at * around) - pace_.seconds(at / around)) / (at * around - at / around);
  const double per_sample = std::max(slope, 1e-3 * pace_.seconds(at) / at);
  const bool held = (laid.batch == bounds_.lowest && pace_.seconds(at) > hand) ||
                    (laid.batch == bounds_.highest && pace_.seconds(at) < hand);
  if (held)
    laid.aim = laid.expected = pace_.seconds(at);
  else
    laid.supply = 1 / per_sample;
  return laid;
}

bool trace_worker::settled(double aim) const {
  return std::abs(std::log(aim / pace_.seconds(batch_))) < settled_within + settled_deviations * pace_.deviation();
}

trace_view trace_worker::view(const trace_field& field, double noise_scale) const {
  trace_view seen{};
  if (!measured())
    return seen;
  const auto put = [&seen](std::size_t at, double value, double most) {
    seen[at] = static_cast<float>(std::clamp(value, -most, most));
  };
  const double own = pace_.seconds(batch_);
  const double slowest = field.slowest() > 0 ? field.slowest() : seconds_;
  if (!masked_ && field.ready()) {
    const auto cell = static_cast<std::ptrdiff_t>(trace_field::cell_of(seconds_, slowest));
    for (std::ptrdiff_t i = -3; i <= 3; ++i)
      if (cell + i >= 0 && cell + i < static_cast<std::ptrdiff_t>(trace_field::cells))
        put(static_cast<std::size_t>(i + 3), 2 * field.arrivals()[static_cast<std::size_t>(cell + i)], 1);
    double earlier = 0;
    double later = 0;
    for (std::size_t i = 0; i < trace_field::cells; ++i)
      (static_cast<std::ptrdiff_t>(i) < cell ? earlier : later) += field.arrivals()[i];
    put(7, earlier, 1);
    put(8, later, 1);
    put(9, field.centre() - seconds_ / slowest, 1);
    put(10, urge(field, noise_scale), 1);
    put(11, 5 * field.trembling(), 1);
  }
  put(12, 2 * std::log(reference(field) / own), 1);
  put(13, seconds_ / slowest - 0.7, 1);
  put(14, seconds_ >= slowest ? 1 : 0, 1);
  put(15,
      std::log(batch_ / static_cast<double>(bounds_.lowest)) /
              std::log(std::max(2.0, bounds_.highest / static_cast<double>(bounds_.lowest))) -
          0.5,
      1);
  put(16, noise_scale < 0 ? 0 : std::log2(noise_scale / std::max(1.0, field.total())) / 4, 1);
  put(17, 4 * std::log(trace_actions[action_]), 1);
  put(18, step_change_, 1);
  put(19, elasticity(), 1);
  put(20, pace_.seconds(batch_ * 1.25) / own / 1.25 * 4 - 3.6, 1);
  put(21, 5 * pace_.deviation(), 1);
  put(22, 2 * surprise_, 1);
  put(23, since_change_, 1);
  put(24, batch_ == bounds_.lowest ? -1 : batch_ == bounds_.highest ? 1 : 0, 1);
  put(25, std::log2(static_cast<double>(std::max<std::size_t>(1, field.workers()))) / 4 - 1, 1);
  return seen;
}

double trace_worker::worth(const trace_field& field, double noise_scale) const {
  if (unchosen_ == 0 || unchosen_ == batch_ || !measured() || field.passed_total() <= batch_)
    return 0;
  const double others = seconds_ >= field.slowest() ? field.slowest_but_one() : field.slowest();
  const double instead = seconds_ * pace_.seconds(unchosen_) / pace_.seconds(batch_);
  const double total = field.passed_total() - batch_ + unchosen_;
  const double follows = elasticity();
  return log_goodput(field.passed_total(), field.slowest(), noise_scale, follows) -
         log_goodput(total, std::max(others, instead), noise_scale, follows);
}

void reflex_account::add(std::uint32_t in_force, std::uint32_t decided, bool moved) {
  sums_.moves += moved ? 1 : 0;
  sums_.moved_samples += static_cast<double>(in_force) - decided;
}

messages::reflex_statistics reflex_account::take(const pace_tracker& own) {
  auto taken = std::exchange(sums_, {});
  taken.changes = static_cast<std::uint32_t>(own.changes() - changes_before_);
  taken.newest_change = taken.changes > 0 ? own.newest_change() : 0;
  changes_before_ = own.changes();
  if (pace_before_)
    taken.pace_change = std::exp(std::clamp(own.pace() - *pace_before_, -log_change_told, log_change_told));
  if (own.measured())
    pace_before_ = own.pace();
  return taken;
}

} // namespace dynamix::policy
