#include "policy/reflex.hpp"

#include "policy/water_filling.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace dynamix::policy {
namespace {

using batches = std::vector<std::uint32_t>;

constexpr double worthwhile_gain = 1.02;  ///< of goodput
constexpr double candidate_ratio = 1.045; ///< between the step times that are looked at: 2^(1/16)
constexpr double reach = 1.25;            ///< of the longest of them, times what the marks speak of
constexpr int candidates_max = 400;       ///< a factor of 2^25
constexpr double longest_step = 1e6;      ///< seconds, that a mark may speak of
constexpr double log_change_told = 13.8;  ///< a factor of a million

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
    const double deviation = deviations / static_cast<double>(workers);
    slowest_of_all_ = std::exp(deviation * expected_maximum(workers));
    worthwhile_ = worthwhile_gain + (field.noise_scale < 0 ? deviation : 0);
  }

  /// How many times as high the goodput of other batch sizes has to be. Marks are as noisy as the steps that they were
  /// learned from, and the best of noisy promises is better than what comes of it: shares would follow the noise.
  double worthwhile() const { return worthwhile_; }

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
  double worthwhile_ = worthwhile_gain;
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
  const bool worthwhile =
      by.goodput(total_batch(next.batches), next.seconds) > by.worthwhile() * by.goodput(total, kept.seconds);
  return worthwhile ? next : kept;
}

mark_slot encode(const pace_mark& mark) {
  const auto rounded = [](double value) { return static_cast<float>(std::clamp(value, -longest_step, longest_step)); };
  return {rounded(mark.fixed_seconds), rounded(mark.seconds_per_sample), rounded(mark.least_seconds),
          rounded(mark.deviation)};
}

pace_mark decode_mark(std::span<const float, mark_floats> slot) {
  const auto possible = [](float value) { return std::abs(value) <= longest_step; }; // false for what is no number
  if (!std::ranges::all_of(slot, possible) || slot[1] <= 0 || slot[2] < 0 || slot[3] < 0)
    return {};
  return {.fixed_seconds = slot[0], .seconds_per_sample = slot[1], .least_seconds = slot[2], .deviation = slot[3]};
}

mark_slot reflex::mark(const pace_tracker& own, std::size_t position, std::uint32_t in_force) const {
  if (!own.measured())
    return {};
  const double seconds = target_seconds_ > 0 ? target_seconds_ : own.seconds(std::max(in_force, 1U));
  return encode(own.mark(seconds, lowest_, highest_[position]));
}

batches reflex::react(std::span<const float> slots, const batches& in_force) {
  reflex_field field{.marks = {}, .in_force = in_force, .highest = highest_, .lowest = lowest_};
  for (std::size_t at = 0; at < slots.size(); at += mark_floats)
    field.marks.push_back(decode_mark(slots.subspan(at).first<mark_floats>()));
  const auto total = std::accumulate(in_force.begin(), in_force.end(), std::uint64_t{0});
  const auto before = std::exchange(total_, total);
  const auto least = std::uint64_t{lowest_} * in_force.size();
  const auto most = std::accumulate(highest_.begin(), highest_.end(), std::uint64_t{0});
  if (field.marks.size() != in_force.size() || total < least || total > most ||
      std::ranges::any_of(field.marks, [](const pace_mark& mark) { return mark.seconds_per_sample <= 0; })) {
    target_seconds_ = 0;
    return in_force;
  }
  const double grown = static_cast<double>(total) / static_cast<double>(std::max<std::uint64_t>(before, 1));
  if (grown > reach || grown < 1 / reach) {
    target_seconds_ = planner(field).slowest(in_force);
    return in_force;
  }
  auto next = policy::react(field);
  target_seconds_ = next.seconds;
  return std::move(next.batches);
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
