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

double sum(std::span<const std::uint32_t> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// T_grad.
double computing_seconds(const truth& now, std::span<const std::uint32_t> split) {
  std::vector<double> work(split.size());
  for (std::size_t i = 0; i < split.size(); ++i)
    work[i] = now.profiles[i]->curve.seconds(split[i]);
  std::vector<double> finished(split.size());
  share_cores(work, now.cores, finished);
  double longest = 0;
  for (std::size_t i = 0; i < split.size(); ++i)
    longest = std::max(longest, finished[i] * now.slowdown[i]);
  return longest;
}

class search {
public:
  search(const truth& now, const cluster::batch& limits) : now_(now), lowest_(limits.lowest) {
    for (std::size_t i = 0; i < now.profiles.size(); ++i) {
      shortest_work_.push_back(now.profiles[i]->curve.seconds(lowest_));
      longest_work_.push_back(now.profiles[i]->curve.seconds(now.highest[i]));
    }
  }

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
    return total * now_.learning.efficiency(now_.phi, total) /
           step_seconds(from.computing_seconds, now_.exchange_seconds, now_.overlap);
  }

  /// Adds so many samples to a worker, takes them from one, or moves them from one to another; whatever is better is
  /// kept. Where cores are shared, a worker's samples cost others time too, which `fill` knows only roughly.
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
    const auto work = now_.cores == 0 ? own_core_work(seconds) : shared_core_work(seconds);
    batches split(work.size());
    for (std::size_t i = 0; i < work.size(); ++i) {
      // A little more, so that rounding does not cost the sample that takes exactly this long.
      const double fits = std::floor(now_.profiles[i]->curve.batch_within(work[i] * (1 + 1e-12)));
      split[i] = static_cast<std::uint32_t>(std::clamp<double>(fits, lowest_, now_.highest[i]));
    }
    return split;
  }

  std::vector<double> own_core_work(double seconds) const {
    std::vector<double> work(now_.slowdown.size());
    for (std::size_t i = 0; i < work.size(); ++i)
      work[i] = seconds / now_.slowdown[i];
    return work;
  }

  /// Everybody computes until its slow-down leaves no time, but at least its lowest and at most its highest batch size.
  std::vector<double> shared_core_work(double seconds) const {
    std::vector<double> work(now_.slowdown.size());
    std::vector<std::size_t> active(work.size());
    std::iota(active.begin(), active.end(), std::size_t{0});
    double time = 0;
    double served = 0; // seconds of a core that every active worker has had
    while (!active.empty()) {
      const double rate = std::min(1.0, static_cast<double>(now_.cores) / static_cast<double>(active.size()));
      // When it stops at this rate.
      const auto stop = [&](std::size_t i) {
        const double deadline = std::max(seconds / now_.slowdown[i], time + (shortest_work_[i] - served) / rate);
        return std::min(deadline, time + (longest_work_[i] - served) / rate);
      };
      const auto next = std::ranges::min_element(active, {}, stop);
      const double until = std::max(time, stop(*next));
      served += (until - time) * rate;
      time = until;
      work[*next] = served;
      active.erase(next);
    }
    return work;
  }

  const truth& now_;
  std::uint32_t lowest_;
  std::vector<double> shortest_work_;
  std::vector<double> longest_work_;
  batches best_;
  double best_goodput_ = -1;
};

} // namespace

double truth::step_seconds(std::span<const std::uint32_t> batches) const {
  return simulator::step_seconds(computing_seconds(*this, batches), exchange_seconds, overlap);
}

double truth::goodput(std::span<const std::uint32_t> batches) const {
  const double total = sum(batches);
  return total * learning.efficiency(phi, total) / step_seconds(batches);
}

std::vector<std::uint32_t> best_batches(const truth& now, const cluster::batch& limits) {
  return search(now, limits).run();
}

} // namespace dynamix::simulator
