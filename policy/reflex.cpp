#include "policy/reflex.hpp"

#include "policy/water_filling.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace dynamix::policy {
namespace {

using batches = std::vector<std::uint32_t>;

constexpr double worthwhile_gain = 1.02;  ///< of goodput
constexpr double candidate_ratio = 1.045; ///< between the step times that are looked at: 2^(1/16)
constexpr double reach = 1.25;            ///< of the longest of them, times what the marks speak of
constexpr int candidates_max = 400;       ///< a factor of 2^25

double total_batch(const batches& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double expected_maximum(std::size_t workers) {
  if (workers < 2)
    return 0;
  const double root = std::sqrt(2 * std::log(static_cast<double>(workers)));
  const double correction = (std::log(std::log(static_cast<double>(workers))) + std::log(4 * std::numbers::pi)) / 2;
  return std::max(0.56, root - correction / root); // two: 1/sqrt(pi)
}

class planner {
public:
  explicit planner(const reflex_field& field) : field_(field) {
    double deviations = 0;
    for (const auto& mark : field.marks)
      deviations += mark.deviation;
    const auto workers = field.marks.size();
    slowest_of_all_ = std::exp(deviations / static_cast<double>(workers) * expected_maximum(workers));
  }

  double slowest(const batches& split) const {
    double seconds = 0;
    for (std::size_t i = 0; i < split.size(); ++i) {
      const auto& mark = field_.marks[i];
      seconds = std::max({seconds, mark.least_seconds, mark.fixed_seconds + mark.seconds_per_sample * split[i]});
    }
    return seconds;
  }
  double goodput(double total, double seconds) const {
    const double phi = field_.noise_scale;
    const double efficiency = phi < 0 ? 1 : (phi + static_cast<double>(field_.initial_total)) / (phi + total);
    return total / (slowest_of_all_ * seconds + field_.exchange_seconds) * efficiency;
  }
  void fill(double seconds, batches& split) const {
    for (std::size_t i = 0; i < split.size(); ++i) {
      const double samples = (seconds - field_.marks[i].fixed_seconds) / field_.marks[i].seconds_per_sample;
      split[i] = static_cast<std::uint32_t>(std::clamp<double>(std::floor(samples), field_.lowest, field_.highest[i]));
    }
  }
  batches split(std::uint64_t total) const {
    return water_fill(
        total, [this](double seconds, batches& fitting) { fill(seconds, fitting); }, field_.lowest, field_.highest);
  }
  /// Step times far above the one that the marks speak of are left out: a tangent lies below a curve that bends
  /// upwards, the further away the more, and plans would jump to and fro between large and small batch sizes.
  std::uint64_t best_total() const {
    batches fitting(field_.marks.size(), field_.lowest);
    const double from = slowest(fitting);
    const double to = std::max(from, field_.target_seconds * reach);
    const auto most = static_cast<double>(field_.highest_total);
    double best = 0;
    double best_goodput = -1;
    double seconds = from;
    for (int i = 0; i < candidates_max && seconds < to * candidate_ratio; ++i, seconds *= candidate_ratio) {
      fill(seconds, fitting);
      const double capacity = total_batch(fitting);
      const double total = std::min(capacity, most);
      if (const double reached = goodput(total, seconds); reached > best_goodput) {
        best_goodput = reached;
        best = total;
      }
      if (capacity >= most)
        break;
    }
    return static_cast<std::uint64_t>(best);
  }

private:
  const reflex_field& field_;
  double slowest_of_all_ = 1;
};

} // namespace

reflex_plan react(const reflex_field& field) {
  const planner by(field);
  reflex_plan kept{.batches = field.in_force, .seconds = by.slowest(field.in_force)};
  if (std::ranges::any_of(field.marks, [](const pace_mark& mark) { return mark.seconds_per_sample <= 0; }))
    return kept;
  const auto total = total_batch(field.in_force);
  reflex_plan next{.batches = by.split(field.noise_scale < 0 ? static_cast<std::uint64_t>(total) : by.best_total()),
                   .moved = true};
  next.seconds = by.slowest(next.batches);
  return by.goodput(total_batch(next.batches), next.seconds) > worthwhile_gain * by.goodput(total, kept.seconds) ? next : kept;
}

} // namespace dynamix::policy
