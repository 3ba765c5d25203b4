#include "policy/measured_cluster.hpp"

#include "messages/early_steps.hpp"
#include "policy/bounded.hpp"
#include "policy/water_filling.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <limits>
#include <numbers>
#include <numeric>

namespace dynamix::policy {
namespace {

constexpr double exchange_weight = 0.5;   ///< of the newest window
constexpr double phi_weight = 0.1;        ///< of the newest window, in what a trend is told from
constexpr double jitter_weight = 0.1;     ///< of the newest window
constexpr double straggling_weight = 0.2; ///< of the newest window
constexpr double straggling_max = 4;      ///< of the logarithm
constexpr double beyond_floor = 1.1;      ///< times the floor: what is longer is not explained by it
constexpr double change_of_speed = 0.32;  ///< log2: beyond this a surprise is not jitter (policy/step_time_table.hpp)
constexpr double cautious_factor = 1.1;   ///< of belief::cautious
constexpr std::uint64_t growth_max = 2;   ///< over the global batch that runs (Pollux: the largest that has run)
constexpr double candidate_ratio = 1.045; ///< between step times that `best` looks at: 2^(1/16)
constexpr double noise_doubt = 1.2;       ///< times, either way, that the critical batch may be from the noise scale
constexpr double worthwhile_gain = 0.02;  ///< of goodput
constexpr double certainty = 2.0;         ///< standard errors that a gain has to exceed
constexpr double least_variable = 0.4;    ///< share of a step that grows with the batch, for shares to differ by
constexpr double same_time = 0.002;       ///< of a step: splits that differ by less take as long
constexpr double largest_trend = 1e6;     ///< of the noise scale
constexpr std::uint32_t windows_remembered = 256; ///< what ran before the last so many windows bounds no plan
constexpr double largest_noise_scale = 1e12;      ///< samples
constexpr double largest_noise_error = 3;         ///< of its logarithm
constexpr int candidates_max = 400;               ///< a factor of 2^25

double sum(std::span<const std::uint32_t> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// log2 of measured over expected seconds; a peer's nonsense stays finite.
double log2_ratio(double measured, double expected) {
  return bounded(std::log2(measured / expected), -10, 10);
}

std::uint64_t at_place(std::vector<std::uint64_t>& numbers, std::size_t place) {
  const auto found = numbers.begin() + static_cast<std::ptrdiff_t>(place);
  std::ranges::nth_element(numbers, found);
  return *found;
}

/// The global batch that ran, which all workers of a window say alike: the median, so that one that claims another does
/// not move the bounds of plans. Of two that differ the smaller; 0 of none.
std::uint64_t agreed_total(std::vector<std::uint64_t> said) {
  return said.empty() ? 0 : at_place(said, (said.size() - 1) / 2);
}

std::optional<cluster::learning_rate_rule> rule_of(messages::rate_rule rule) {
  switch (rule) {
  case messages::rate_rule::constant:
    return cluster::learning_rate_rule::constant;
  case messages::rate_rule::linear:
    return cluster::learning_rate_rule::linear;
  case messages::rate_rule::square_root:
    return cluster::learning_rate_rule::square_root;
  case messages::rate_rule::adascale:
    return cluster::learning_rate_rule::adascale;
  case messages::rate_rule::unspecified:
    break;
  }
  return std::nullopt;
}

double mean_of(double moving, double newest, double weight) {
  return moving < 0 ? newest : moving + weight * (newest - moving);
}

} // namespace

bool measured_cluster::take(const messages::window_report& report) {
  const auto [worker, fresh] = memories_.of(report);
  if (fresh) {
    const auto seconds = computing_seconds(report);
    const bool expected = !worker.computing.curve().empty();
    worker.surprise = expected ? log2_ratio(seconds, worker.computing.curve().seconds(report.batch)) : 0;
    if (expected && std::abs(worker.surprise) < change_of_speed) {
      const auto square = worker.surprise * worker.surprise;
      worker.jitter = std::sqrt(mean_of(worker.jitter * worker.jitter, square, jitter_weight));
      if (worker.computing.between_points(report.batch)) { // elsewhere it was a guess, made to be corrected
        const auto weight = std::max(jitter_weight, 1 / ++worker.predictions);
        worker.error = std::sqrt(mean_of(worker.error * worker.error, square, weight));
      }
    }
    worker.computing.measure(report.batch, seconds, report.balance.pace_change);
    worker.correction = log2_ratio(seconds, worker.computing.curve().seconds(report.batch));
  } else {
    worker.surprise = worker.correction = 0; // an old report tells nothing new
  }
  now_.push_back({.curve = worker.computing.curve(),
                  .surprise = worker.surprise,
                  .correction = worker.correction,
                  .jitter = worker.jitter,
                  .error = worker.error});
  return fresh;
}

/// What a script has chosen by itself wins over the file, which it may never have seen. All say the same base and rule:
/// the median of them, so that one that claims another moves nothing.
void measured_cluster::take_what_clients_say(const messages::shard_report& shard) {
  std::vector<std::uint64_t> bases;
  std::vector<std::uint64_t> rules;
  for (std::size_t worker = 0; worker < shard.reports.size(); ++worker) {
    const auto& report = shard.reports[worker];
    if (report.base_batch > 0)
      bases.push_back(report.base_batch);
    if (const auto rule = rule_of(report.rule))
      rules.push_back(static_cast<std::uint64_t>(*rule));
    if (report.highest_batch > 0)
      highest_[worker] = std::max(limits_.lowest, std::min(highest_[worker], report.highest_batch));
  }
  if (!bases.empty())
    told_base_ = agreed_total(std::move(bases));
  if (!rules.empty())
    rule_ = static_cast<cluster::learning_rate_rule>(agreed_total(std::move(rules)));
}

void measured_cluster::measure(const messages::shard_report& shard, std::vector<std::uint32_t> highest) {
  now_.clear();
  best_.reset();
  highest_ = std::move(highest);
  highest_.resize(shard.reports.size(), limits_.highest);
  if (shard.generation != generation_) {
    generation_ = shard.generation;
    largest_run_ = {};
  } else if (++largest_run_.windows == windows_remembered) {
    largest_run_ = {.now = largest_run_.now, .newest = 0, .before = largest_run_.newest};
  }
  double phi = 0;
  double error = 0;
  double phis = 0;
  // The least of this window's waits, not of each worker's mean: the slowest is another in each window, so every worker
  // waits on average.
  double least_wait = std::numeric_limits<double>::infinity();
  std::vector<std::uint64_t> totals;
  std::vector<std::uint64_t> steps;
  take_what_clients_say(shard);
  for (const auto& report : shard.reports) {
    if (take(report)) {
      least_wait = std::min(least_wait, bounded(report.training.exchange_seconds, 0, messages::max_seconds));
      totals.push_back(report.global_batch);
      steps.push_back(std::min(report.first_step, messages::max_counter) + report.training.steps);
    }
    if (report.window == shard.window && report.training.gradient_valid) {
      phi += bounded(report.training.noise_scale, 0, largest_noise_scale);
      error += bounded(report.training.noise_error, 0, largest_noise_error);
      ++phis;
    }
  }
  if (!totals.empty())
    largest_run_.now = agreed_total(std::move(totals));
  if (!steps.empty()) // of two the larger: one that says too few holds nobody up
    early_ = at_place(steps, steps.size() / 2) < messages::early_steps;
  largest_run_.newest = std::max(largest_run_.newest, largest_run_.now);
  if (std::isfinite(least_wait))
    exchange_seconds_ = mean_of(exchange_seconds_, least_wait, exchange_weight);
  if (phis > 0) {
    noise_scale_ = phi / phis;
    noise_error_ = error / phis;
    mean_noise_scale_ = mean_of(mean_noise_scale_, noise_scale_, phi_weight);
  }
  measure_straggling(shard);
  progress_ = measure_progress(shard);
}

/// Where a worker at its smallest batch size was the slowest, or the step was hardly longer than the floor, stragglers
/// may have hidden below it: that can only show that there is less of it than was thought. Only where workers move work
/// at every step: elsewhere a host that has slowed down holds the others for whole windows, until the next plan, which
/// mends that better than smaller batch sizes do.
void measured_cluster::measure_straggling(const messages::shard_report& shard) {
  std::vector<std::uint32_t> batches;
  const messages::window_report* slowest = nullptr;
  for (const auto& report : shard.reports) {
    batches.push_back(report.batch);
    work_moves_ = work_moves_ || report.balance.pace_change > 0;
    if (report.training.compute_seconds > 0 && // also not NaN
        (slowest == nullptr || report.training.compute_seconds > slowest->training.compute_seconds))
      slowest = &report;
  }
  const auto all = pace_of({});
  const auto median = median_seconds(batches, all);
  if (!work_moves_ || slowest == nullptr || median <= 0)
    return;
  const auto seconds = computing_seconds(*slowest);
  const auto seen = bounded(std::log(seconds / median), 0, straggling_max);
  if (seen < straggling_ || (slowest->batch > limits_.lowest && seconds > beyond_floor * floor_seconds(all)))
    straggling_ += straggling_weight * (seen - straggling_);
}

bool measured_cluster::any_measured() const {
  return std::ranges::any_of(now_, [](const worker_now& worker) { return !worker.curve.empty(); });
}

std::uint64_t measured_cluster::highest_total() const {
  return static_cast<std::uint64_t>(sum(highest_));
}

double measured_cluster::noise_trend() const {
  return noise_scale_ > 0 && mean_noise_scale_ > 0 ? bounded(noise_scale_ / mean_noise_scale_, 0, largest_trend) : 1;
}

std::uint64_t measured_cluster::largest_planned() const {
  if (early_)
    return largest_run_.now == 0 ? initial_total() : largest_run_.now;
  const auto run = std::max(largest_run_.newest, largest_run_.before);
  return growth_max * (run == 0 ? initial_total() : std::min(run, std::max(largest_run_.now, initial_total())));
}

std::uint64_t measured_cluster::least_planned() const {
  if (early_)
    return largest_planned();
  if (!cluster::goes_below_initial(rule_))
    return initial_total();
  return noise_known() ? lowest_total() : std::min(initial_total(), largest_planned());
}

double measured_cluster::factor(std::size_t worker, belief how) const {
  return how == belief::newest ? std::exp2(now_[worker].correction) : how == belief::cautious ? cautious_factor : 1.0;
}

measured_cluster::pace measured_cluster::pace_of(std::span<const belief> how) const {
  pace result{.factors = {}, .all_measured = true};
  result.factors.reserve(now_.size());
  for (std::size_t i = 0; i < now_.size(); ++i) {
    result.factors.push_back(factor(i, how));
    result.all_measured = result.all_measured && measured(i);
  }
  return result;
}

double measured_cluster::average_within(double seconds) const {
  double samples = 0;
  double workers = 0;
  for (const auto& worker : now_)
    if (!worker.curve.empty()) {
      samples += worker.curve.batch_within(seconds);
      ++workers;
    }
  return workers > 0 ? samples / workers : 0;
}

double measured_cluster::median_seconds(std::span<const std::uint32_t> batches, const pace& all) const {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < now_.size(); ++i)
    if (measured(i) && batches[i] > limits_.lowest && batches[i] < highest_[i])
      seconds.push_back(all.factors[i] * now_[i].curve.seconds(batches[i]));
  if (seconds.empty())
    return 0;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

double measured_cluster::floor_seconds(const pace& all) const {
  double seconds = 0;
  for (std::size_t i = 0; i < now_.size(); ++i)
    if (measured(i))
      seconds = std::max(seconds, all.factors[i] * now_[i].curve.seconds(limits_.lowest));
  return seconds;
}

void measured_cluster::batches_within(double seconds, const pace& all, std::vector<std::uint32_t>& batches) const {
  const auto average = all.all_measured ? 0 : average_within(seconds);
  for (std::size_t i = 0; i < now_.size(); ++i) {
    const auto samples = measured(i) ? now_[i].curve.batch_within(seconds / all.factors[i]) : average;
    batches[i] = whole_samples(samples, limits_.lowest, highest_[i]);
  }
}

batch_plan measured_cluster::within(double seconds, std::span<const belief> how) const {
  std::vector<std::uint32_t> batches(now_.size());
  batches_within(seconds, pace_of(how), batches);
  return judge(std::move(batches), how);
}

double measured_cluster::efficiency(double total) const {
  if (!noise_known())
    return 1;
  const auto initial = static_cast<double>(initial_total());
  const double critical = total < initial ? noise_scale_ * noise_doubt : noise_scale_ / noise_doubt;
  return (critical + initial) / (critical + total);
}

batch_plan measured_cluster::judge(std::vector<std::uint32_t> batches, std::span<const belief> how) const {
  batch_plan judged{.batches = std::move(batches)};
  const auto all = pace_of(how);
  for (std::size_t i = 0; i < now_.size(); ++i) {
    judged.total += judged.batches[i];
    if (!measured(i))
      continue;
    const auto seconds = all.factors[i] * now_[i].curve.seconds(judged.batches[i]);
    judged.slowest_seconds = std::max(judged.slowest_seconds, seconds);
    if (judged.batches[i] > limits_.lowest)
      judged.level_seconds = std::max(judged.level_seconds, seconds);
  }
  if (!work_moves_ || judged.level_seconds == 0)
    judged.level_seconds = judged.slowest_seconds;
  if (straggling_ > 0)
    judged.slowest_seconds = std::max(judged.slowest_seconds, straggling() * median_seconds(judged.batches, all));
  const auto total = static_cast<double>(judged.total);
  judged.goodput = total / (judged.slowest_seconds + exchange_seconds()) * efficiency(total);
  return judged;
}

batch_plan measured_cluster::split(std::uint64_t total, std::span<const belief> how) const {
  const auto all = pace_of(how);
  auto within = [&](double seconds, std::vector<std::uint32_t>& batches) { batches_within(seconds, all, batches); };
  return judge(spread_evenly(water_fill(total, capacities(within), limits_.lowest, highest_), all), how);
}

/// Where a step's cost is fixed any split takes as long, and chance would pick one.
std::vector<std::uint32_t> measured_cluster::spread_evenly(std::vector<std::uint32_t> batches, const pace& all) const {
  double seconds =
      0; // not those of a host that is slow at the least batch size: to fill the others up to it has a cost
  for (std::size_t i = 0; i < now_.size(); ++i)
    if (measured(i) && batches[i] > limits_.lowest)
      seconds = std::max(seconds, all.factors[i] * now_[i].curve.seconds(batches[i]));
  std::vector<std::uint32_t> fitting(now_.size());
  batches_within(seconds * (1 + same_time), all, fitting);
  for (std::size_t i = 0; i < now_.size(); ++i)
    fitting[i] = std::max(fitting[i], batches[i]);
  const std::vector<double> even(now_.size(), 1);
  const auto total = std::accumulate(batches.begin(), batches.end(), std::uint64_t{0});
  return bring_together(split_in_proportion(total, even, limits_.lowest, fitting), all);
}

/// A step time that chance has made flat would have one host take all for a little speed.
std::vector<std::uint32_t> measured_cluster::bring_together(std::vector<std::uint32_t> batches, const pace& all) const {
  if (!all.all_measured)
    return batches;
  const auto total = std::accumulate(batches.begin(), batches.end(), std::uint64_t{0});
  const auto even = static_cast<double>(total) / static_cast<double>(now_.size());
  std::vector<double> seconds;
  for (std::size_t i = 0; i < now_.size(); ++i)
    seconds.push_back(all.factors[i] * now_[i].curve.seconds(even));
  const auto [fastest, slowest] = std::ranges::minmax(seconds);
  std::vector<double> together;
  for (std::size_t i = 0; i < now_.size(); ++i)
    together.push_back(bounded(batches[i], std::floor(even * std::pow(fastest / seconds[i], 1 / least_variable)),
                               std::ceil(even * std::pow(slowest / seconds[i], 1 / least_variable))));
  return std::ranges::equal(together, batches) ? batches
                                               : split_in_proportion(total, together, limits_.lowest, highest_);
}

/// What a change has to gain, times: more than the standard error of predicted step times.
double measured_cluster::least_gain(const batch_plan& plan) const {
  double squares = 0;
  double workers = 0;
  for (std::size_t i = 0; i < now_.size(); ++i)
    if (measured(i)) {
      squares += now_[i].error * now_[i].error;
      ++workers;
    }
  const double computing = plan.slowest_seconds / (plan.slowest_seconds + exchange_seconds());
  const double error = workers > 0 ? certainty * computing * std::numbers::ln2 * std::sqrt(squares / workers) : 0;
  return 1 + std::max(worthwhile_gain, error);
}

batch_plan measured_cluster::keep_shares(batch_plan plan, const std::vector<std::uint32_t>& assigned,
                                         std::span<const belief> how) const {
  const std::vector<double> even(now_.size(), 1);
  for (const auto& shares : {even, std::vector<double>(assigned.begin(), assigned.end())}) {
    auto kept = judge(split_in_proportion(plan.total, shares, limits_.lowest, highest_), how);
    if (plan.goodput < least_gain(plan) * kept.goodput)
      return kept;
  }
  return plan;
}

worthwhile_plan measured_cluster::worthwhile(batch_plan plan, const std::vector<std::uint32_t>& assigned,
                                             std::span<const belief> how) const {
  auto nearest = judge(assigned, how);
  const auto running = nearest.total;
  const auto initial = initial_total();
  const bool grows_back = running < std::min(plan.total, initial);
  plan = keep_shares(std::move(plan), assigned, how);
  if (grows_back)
    return {.reason = fmt::format("grows from {} to {}, {} the initial global batch of {}", running, plan.total,
                                  plan.total > initial ? "beyond" : "towards", initial),
            .plan = std::move(plan)};
  if (plan.total != running) {
    auto other_shares = keep_shares(split(running, how), assigned, how);
    if (other_shares.goodput >= least_gain(other_shares) * nearest.goodput)
      nearest = std::move(other_shares);
  }
  const auto percent = [](double factor) { return 100 * (factor - 1); };
  const auto asked = least_gain(plan);
  const auto gain = plan.goodput / nearest.goodput;
  if (gain >= asked)
    return {.reason = fmt::format("gains {:.1f} %", percent(gain)), .plan = std::move(plan)};
  return {.reason = fmt::format("stays at {}: {} would gain {:.1f} %, and a change has to gain {:.1f} %", running,
                                plan.total == running ? "another split" : fmt::format("{}", plan.total), percent(gain),
                                percent(asked)),
          .plan = std::move(nearest)};
}

/// Goodput is looked at along the time T that workers get rather than the global batch: for each T one pass over them
/// gives the largest global batch that T allows, where a global batch would need a bisection of its own.
batch_plan measured_cluster::best(double from, double to, std::span<const belief> how) const {
  to = std::min(to, static_cast<double>(highest_total()));
  from = std::min(std::max(from, static_cast<double>(lowest_total())), to);
  auto chosen = split(static_cast<std::uint64_t>(std::llround(from)), how);
  if (!noise_known() || from == to)
    return chosen;
  auto best_total = static_cast<double>(chosen.total);
  auto best_goodput = chosen.goodput;
  const auto all = pace_of(how);
  const auto floor = floor_seconds(all);
  double seconds = std::min(chosen.slowest_seconds, std::max(chosen.level_seconds, floor) / straggling());
  std::vector<std::uint32_t> fitting(now_.size());
  for (int i = 0; i < candidates_max && best_total < to; ++i) {
    seconds *= candidate_ratio;
    batches_within(seconds, all, fitting);
    const auto capacity = sum(fitting);
    const auto total = std::min(capacity, to);
    const auto slowest = std::max(floor, straggling() * seconds);
    const auto goodput = total / (slowest + exchange_seconds()) * efficiency(total);
    if (total > from && goodput > best_goodput) {
      best_goodput = goodput;
      best_total = total;
    }
    if (capacity >= to)
      break;
  }
  // Of candidates this far apart the initial global batch may have been between two.
  const auto initial = static_cast<double>(initial_total());
  if (std::abs(std::log(best_total / initial)) < std::log(candidate_ratio))
    best_total = std::clamp(initial, from, to);
  if (best_total == static_cast<double>(chosen.total))
    return chosen;
  return split(static_cast<std::uint64_t>(best_total), how);
}

batch_plan measured_cluster::best(std::span<const belief> how) const {
  const auto least = least_planned();
  return best(static_cast<double>(least), static_cast<double>(std::max(largest_planned(), least)), how);
}

const batch_plan& measured_cluster::best() const {
  if (!best_)
    best_ = best(std::span<const belief>{});
  return *best_;
}

double measured_cluster::measure_progress(const messages::shard_report& shard) const {
  double samples = 0;
  double seconds = 0;
  for (const auto& report : shard.reports) {
    samples += report.batch;
    seconds = std::max(seconds, bounded(report.training.iteration_seconds, 0, messages::max_seconds));
  }
  if (!any_measured() || samples <= 0 || seconds <= 0)
    return 0;
  const std::vector<belief> newest(now_.size(), belief::newest);
  const auto had = samples / seconds * efficiency(samples);
  return bounded(std::log2(had / best(newest).goodput), -5, 5);
}

} // namespace dynamix::policy
