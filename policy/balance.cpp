#include "policy/balance.hpp"

#include "policy/bounded.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dynamix::policy {
namespace {

using batches = std::vector<std::uint32_t>;
using paced = std::span<const balanced_worker>;

constexpr double noticed_gain = 0.02;  ///< of the slowest worker's seconds, below which even shares stay
constexpr double refined_gain = 0.005; ///< the same of shares that are not even anyway
constexpr double chance = 2; ///< standard deviations of the workers' variance that do not count as a difference

double seconds_of(const balanced_worker& worker, std::uint32_t batch) {
  return std::max(worker.pace.fixed_seconds + batch * worker.pace.sample_seconds, 0.0);
}

/// The workers with their paces drawn together by as much as chance explains (James and Stein, "Estimation with
/// quadratic loss", 1961): where they differ by no more than the errors of what each says, all have the mean; where one
/// is four times as slow, it is. Compared at an even share.
std::vector<balanced_worker> drawn_together(std::uint64_t total, paced workers) {
  const auto count = static_cast<double>(workers.size());
  const auto share = static_cast<double>(total) / count;
  std::vector<balanced_worker> drawn(workers.begin(), workers.end());
  const auto at_share = [&](const balanced_worker& one) {
    return std::max(one.pace.fixed_seconds + share * one.pace.sample_seconds, 1e-12);
  };
  double mean = 0;
  for (const auto& each : workers)
    mean += at_share(each) / count;
  double variance = 0;
  double noise = 0;
  for (const auto& each : workers) {
    const double relative = at_share(each) / mean;
    variance += (relative - 1) * (relative - 1) / std::max(count - 1, 1.0);
    noise += each.pace.error * each.pace.error * relative * relative / count;
  }
  const double between = std::max(variance - (1 + chance * std::sqrt(2 / std::max(count - 1, 1.0))) * noise, 0.0);
  for (auto& each : drawn) {
    const double relative = at_share(each) / mean;
    const double error = each.pace.error * relative;
    const double kept = between > 0 ? between / (between + error * error) : 0;
    const double factor = (1 + kept * (relative - 1)) / relative;
    each.pace.fixed_seconds *= factor;
    each.pace.sample_seconds *= factor;
  }
  return drawn;
}

/// What one worker computes within a level T, whatever that is: (T - fixed) / slope samples, between its bounds.
struct line {
  double fixed = 0;
  double slope = 1; ///< > 0
  double lowest = 0;
  double highest = 0;

  double samples(double level) const { return bounded((level - fixed) / slope, lowest, highest); }
};

/// The level at which all lines together give `total`. Not policy/water_filling, which halves its way along curves of
/// any shape: this runs in each step on each of hundreds of workers. Newton's method, which is exact once it is known
/// whom a bound holds, in a bracket, since a step may lead to where all are held.
double level_of(double total, std::span<const line> lines) {
  constexpr int steps_max = 60;
  double lower = lines.front().fixed;
  double upper = lower;
  for (const auto& each : lines) {
    lower = std::min(lower, each.fixed + each.slope * each.lowest);
    upper = std::max(upper, each.fixed + each.slope * each.highest);
  }
  double level = lower + (upper - lower) / 2;
  for (int step = 0; step < steps_max; ++step) {
    double sum = 0;
    double rising = 0;
    for (const auto& each : lines) {
      const double samples = each.samples(level);
      sum += samples;
      rising += samples > each.lowest && samples < each.highest ? 1 / each.slope : 0;
    }
    (sum < total ? lower : upper) = level;
    if (std::abs(sum - total) < 1e-6 * total)
      break;
    const double next = rising > 0 ? level + (total - sum) / rising : lower;
    level = next > lower && next < upper ? next : lower + (upper - lower) / 2;
  }
  return level;
}

/// Whole samples that add up to `total` where the bounds allow it; what rounding down leaves goes to those who have
/// lost most by it, of equal ones to the first.
batches fill(std::uint64_t total, std::span<const line> lines) {
  double least = 0;
  double most = 0;
  for (const auto& each : lines) {
    least += each.lowest;
    most += each.highest;
  }
  const double wanted = bounded(static_cast<double>(total), least, most);
  const double level = level_of(wanted, lines);
  batches filled(lines.size());
  std::vector<std::pair<double, std::size_t>> lost(lines.size());
  auto left = wanted;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double samples = lines[i].samples(level);
    filled[i] = static_cast<std::uint32_t>(samples);
    left -= filled[i];
    lost[i] = {filled[i] - samples, i};
  }
  // Rounds, since a bound may not let a worker have what is left; each gives somebody a sample.
  while (left != 0) {
    const bool gives = left > 0;
    std::vector<std::pair<double, std::size_t>> able;
    for (const auto& [loss, i] : lost)
      if (gives ? filled[i] < lines[i].highest : filled[i] > lines[i].lowest)
        able.emplace_back(gives ? loss : -loss, i);
    if (able.empty())
      break;
    const auto count = std::min(able.size(), static_cast<std::size_t>(std::abs(left)));
    std::ranges::nth_element(able, able.begin() + static_cast<std::ptrdiff_t>(count - 1));
    for (std::size_t at = 0; at < count; ++at)
      filled[able[at].second] += gives ? 1 : -1;
    left += (gives ? -1.0 : 1.0) * static_cast<double>(count);
  }
  return filled;
}

/// `of(worker)`: its line, bounds aside.
template <class Of>
batches fill(std::uint64_t total, paced workers, Of of) {
  std::vector<line> lines;
  for (const auto& worker : workers) {
    lines.push_back(of(worker));
    lines.back().lowest = worker.lowest;
    lines.back().highest = std::max(worker.highest, worker.lowest);
  }
  return fill(total, lines);
}

/// Whether the shares in force add up to the total, within the bounds.
bool fits(std::uint64_t total, paced workers) {
  std::uint64_t sum = 0;
  bool allowed = true;
  for (const auto& worker : workers) {
    sum += worker.batch;
    allowed = allowed && worker.batch >= worker.lowest && worker.batch <= worker.highest;
  }
  return allowed && sum == total;
}

batches in_force(paced workers) {
  batches shares(workers.size());
  std::ranges::transform(workers, shares.begin(), &balanced_worker::batch);
  return shares;
}

/// In proportion to what is in force.
batches keep_shares(std::uint64_t total, paced workers) {
  return fill(total, workers,
              [](const balanced_worker& one) { return line{.slope = 1 / std::max<double>(one.batch, 1)}; });
}

/// As many to each as to the others; of what is left, one to each of the first.
batches share_evenly(std::uint64_t total, paced workers) {
  const auto share = total / workers.size();
  const auto more = total % workers.size();
  if (!std::ranges::all_of(workers, [&](const balanced_worker& one) {
        return share >= one.lowest && share + (more > 0 ? 1 : 0) <= one.highest;
      }))
    return fill(total, workers, [](const balanced_worker&) { return line{}; });
  batches even(workers.size(), static_cast<std::uint32_t>(share));
  for (std::size_t i = 0; i < more; ++i)
    ++even[i];
  return even;
}

double slowest_seconds(paced workers, const batches& of) {
  double slowest = 0;
  for (std::size_t i = 0; i < workers.size(); ++i)
    slowest = std::max(slowest, seconds_of(workers[i], of[i]));
  return slowest;
}

/// Whether shares that fit stay whatever the best ones are, which are not looked for then: most steps on each of
/// hundreds of workers end here. None are faster than the level at which all lines together give the total, nor than
/// somebody whom its bound holds; and the best ones are slower than that by two samples of somebody at most.
bool surely_kept(std::uint64_t total, paced drawn, const batches& kept, const batches& even) {
  const bool is_even = kept == even;
  const double slowest = slowest_seconds(drawn, kept);
  const double level = slowest / (1 + (is_even ? noticed_gain : refined_gain)); // that would be worth a change
  double samples = 0;                                                           // within it
  double held = 0;
  double granule = 0;
  for (const auto& each : drawn) {
    const auto& [fixed, slope, error] = each.pace;
    samples += bounded((level - fixed) / slope, each.lowest, std::max(each.lowest, each.highest));
    held = std::max(held, fixed + slope * each.lowest);
    granule = std::max(granule, slope);
  }
  return (samples < (1 - 1e-9) * static_cast<double>(total) || held > (1 + 1e-9) * level) &&
         (is_even || slowest_seconds(drawn, even) > (1 + noticed_gain / 2) * (slowest + 2 * granule));
}

balanced_step account_of(paced workers, batches shares, balance_reason reason) {
  balanced_step step{.reason = reason, .slowest_seconds = slowest_seconds(workers, shares)};
  for (std::size_t i = 0; i < workers.size(); ++i)
    if (shares[i] > workers[i].lowest && shares[i] < workers[i].highest)
      step.supply += 1 / workers[i].pace.sample_seconds;
    else if (shares[i] > workers[i].lowest)
      step.full = true;
    else
      step.held_seconds = std::max(step.held_seconds, seconds_of(workers[i], shares[i]));
  step.batches = std::move(shares);
  return step;
}

} // namespace

std::uint64_t median_total(std::vector<std::uint64_t> proposed, std::uint64_t in_force) {
  std::ranges::replace(proposed, std::uint64_t{0}, in_force);
  const auto middle = proposed.begin() + static_cast<std::ptrdiff_t>(proposed.size() / 2);
  std::ranges::nth_element(proposed, middle);
  return *middle;
}

balanced_step balance(std::uint64_t total, paced workers) {
  const bool stands = fits(total, workers);
  auto kept = stands ? in_force(workers) : keep_shares(total, workers);
  if (!std::ranges::all_of(workers, [](const balanced_worker& one) { return one.pace.measured(); }))
    return {.batches = std::move(kept)};
  const auto drawn = drawn_together(total, workers);
  auto even = share_evenly(total, workers);
  if (stands && surely_kept(total, drawn, kept, even))
    return account_of(drawn, std::move(kept), balance_reason::kept);
  auto level = fill(total, drawn, [](const balanced_worker& one) {
    return line{.fixed = one.pace.fixed_seconds, .slope = one.pace.sample_seconds};
  });
  const double best = slowest_seconds(drawn, level);
  const bool is_even = kept == even;
  if (!is_even && slowest_seconds(drawn, even) <= (1 + noticed_gain / 2) * best)
    return account_of(drawn, std::move(even), balance_reason::evened);
  if (slowest_seconds(drawn, kept) > (1 + (is_even ? noticed_gain : refined_gain)) * best)
    return account_of(drawn, std::move(level), balance_reason::moved);
  return account_of(drawn, std::move(kept), balance_reason::kept);
}

} // namespace dynamix::policy
