#include "simulator/oracle.hpp"

#include "simulator/step_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dynamix::simulator {
namespace {

using batches = std::vector<std::uint32_t>;

constexpr double tolerance = 1e-3;      // of goodput
constexpr double resolution = 1 + 1e-9; // ratio of step times that are the same
constexpr int first_candidates = 32;
constexpr int settling_steps = 8;
constexpr double longest_step = 4; // times as long as the one that was best
constexpr int rhythm_steps = 12;   // two, three or four steps repeat themselves

double sum(std::span<const std::uint32_t> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// T_grad where each has a core of its own.
double computing_seconds(const truth& now, std::span<const std::uint32_t> split) {
  double longest = 0;
  for (std::size_t i = 0; i < split.size(); ++i)
    longest = std::max(longest, now.slowdown[i].seconds(now.profiles[i]->curve.seconds(split[i])));
  return longest;
}

/// The mean of steps once they have found their rhythm.
double shared_step_seconds(const truth& now, std::span<const std::uint32_t> split) {
  std::vector<double> work(split.size());
  std::vector<double> slowdown(split.size());
  for (std::size_t i = 0; i < split.size(); ++i) {
    work[i] = now.profiles[i]->curve.seconds(split[i]);
    slowdown[i] = now.slowdown[i].factor();
  }
  std::vector<double> computing(split.size());
  shared_cores sharing(now.cores, split.size());
  double seconds = 0;
  for (int step = -settling_steps; step < rhythm_steps; ++step) {
    const double one = sharing.step_seconds(work, slowdown, now.exchange_seconds, now.overlap, computing);
    seconds += step < 0 ? 0 : one;
  }
  return seconds / rhythm_steps;
}

class search {
public:
  search(const truth& now, const cluster::batch& limits) : now_(now), lowest_(limits.lowest) {}

  batches run() {
    const batches least(now_.highest.size(), lowest_);
    const double shortest = computing_seconds(now_, least);
    const double longest = std::max(shortest, computing_seconds(now_, now_.highest));
    auto from = consider(shortest);
    for (int i = 1; i <= first_candidates; ++i)
      consider(shortest * std::pow(longest / shortest, static_cast<double>(i) / first_candidates));
    narrow(from, consider(longest));
    if (now_.cores > 0)
      for (std::int64_t amount = 64; amount > 0; amount /= 2)
        while (improve_by_moving(amount)) {
        }
    return best_;
  }

private:
  /// What the workers compute within a step time.
  struct candidate {
    double computing_seconds = 0; ///< allowed
    batches split;
  };

  candidate consider(double seconds) {
    candidate made{.computing_seconds = seconds, .split = fill(seconds)};
    if (const double goodput = now_.goodput(made.split); goodput > best_goodput_) {
      best_goodput_ = goodput;
      best_ = made.split;
    }
    return made;
  }

  /// Looks for something better between the two.
  void narrow(const candidate& from, const candidate& to) {
    const double ratio = to.computing_seconds / from.computing_seconds;
    if (from.split == to.split || ratio < resolution || bound(from, to) <= best_goodput_ * (1 + tolerance))
      return;
    const auto middle = consider(from.computing_seconds * std::sqrt(ratio));
    narrow(from, middle);
    narrow(middle, to);
  }

  /// No step time in between has a higher goodput.
  double bound(const candidate& from, const candidate& to) const {
    const double total = sum(to.split);
    // A slow-down that is waited for may hide the exchange, and those who share cores are no faster than alone.
    const double exchange = now_.cores > 0 ? 0 : now_.exchange_seconds;
    return total * now_.learning.efficiency(now_.phi, total) /
           step_seconds(from.computing_seconds, exchange, now_.overlap);
  }

  /// Adds so many samples to a worker, takes them from one, or moves them from one to another; whatever is better is
  /// kept. Where cores are shared, a worker's samples cost others time too, of which `fill` knows nothing.
  bool improve_by_moving(std::int64_t amount) {
    const auto before = best_goodput_;
    const std::size_t nobody = best_.size();
    for (std::size_t to = 0; to <= nobody; ++to)
      for (std::size_t from = 0; from <= nobody; ++from) {
        auto moved = best_;
        if (from == to || (to < nobody && !change(moved, to, amount)) ||
            (from < nobody && !change(moved, from, -amount)))
          continue;
        if (const double goodput = now_.goodput(moved); goodput > best_goodput_ * resolution) {
          best_goodput_ = goodput;
          best_ = std::move(moved);
        }
      }
    return best_goodput_ > before;
  }

  bool change(batches& split, std::size_t worker, std::int64_t by) const {
    const auto batch = split[worker] + by;
    if (batch < lowest_ || batch > now_.highest[worker])
      return false;
    split[worker] = static_cast<std::uint32_t>(batch);
    return true;
  }

  batches fill(double seconds) const {
    batches split(now_.highest.size());
    for (std::size_t i = 0; i < split.size(); ++i) {
      // A little more, so that rounding does not cost the sample that takes exactly this long.
      const double fits =
          std::floor(now_.profiles[i]->curve.batch_within(now_.slowdown[i].work_within(seconds) * (1 + 1e-12)));
      split[i] = static_cast<std::uint32_t>(std::clamp<double>(fits, lowest_, now_.highest[i]));
    }
    return split;
  }

  const truth& now_;
  std::uint32_t lowest_;
  batches best_;
  double best_goodput_ = -1;
};

} // namespace

double truth::step_seconds(std::span<const std::uint32_t> batches) const {
  if (cores > 0)
    return shared_step_seconds(*this, batches);
  return simulator::step_seconds(computing_seconds(*this, batches), exchange_seconds, overlap);
}

double truth::goodput(std::span<const std::uint32_t> batches) const {
  const double total = sum(batches);
  return total * learning.efficiency(phi, total) / step_seconds(batches);
}

std::vector<std::uint32_t> best_batches(const truth& now, const cluster::batch& limits) {
  return search(now, limits).run();
}

std::vector<policy::choice> oracle::choose_all(const policy::observation& observed) {
  std::vector<policy::choice> choices;
  for (std::size_t i = 0; i < observed.report->reports.size(); ++i)
    choices.push_back({.rank = observed.report->reports[i].rank,
                       .batch = next.empty() ? observed.assigned[i] : next[i],
                       .reason = "highest true goodput"});
  return choices;
}

std::vector<std::uint32_t> step_planner::operator()(const truth& now, const cluster::batch& limits) {
  if (best_.empty() || !holds(now)) {
    best_ = best_batches(now, limits);
    before_ = now;
  }
  return best_;
}

/// Whether what was best before still is: nothing is different, and nothing changes for as long as a step may take.
bool step_planner::holds(const truth& now) const {
  if (now.profiles != before_.profiles || now.exchange_seconds != before_.exchange_seconds ||
      std::abs(now.phi - before_.phi) > 0.01 * before_.phi)
    return false;
  const double soon = longest_step * now.step_seconds(best_);
  return std::ranges::equal(now.slowdown, before_.slowdown, [&](const auto& one, const auto& other) {
    return one.factor() == other.factor() && one.constant_seconds() > soon && other.constant_seconds() > soon;
  });
}

} // namespace dynamix::simulator
