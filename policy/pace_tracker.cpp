#include "policy/pace_tracker.hpp"

#include "messages/types.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::policy {
namespace {

constexpr std::size_t points_max = 24;
constexpr double near_batch = 0.1;             ///< relative distance within which measurements share a point
constexpr double drift = 1;                    ///< standard deviations a step that are not evidence
constexpr double threshold = 6;                ///< standard deviations of evidence that make a change
constexpr double outlying = 4;                 ///< standard deviations that a step counts as at most, for a change
constexpr double believed_factor = 2;          ///< of a single step at a new batch size
constexpr double short_seconds = 0.02;         ///< steps below it make many an hour, and have to give more evidence
constexpr double clipped = 1.5;                ///< standard deviations that a step counts as at most, for the noise
constexpr double clipped_variance = 0.7785;    ///< of a standard normal number, where it is clipped so
constexpr double first_variance = 0.1 * 0.1;   ///< of the logarithm, before anything is known
constexpr double least_variance = 0.02 * 0.02; ///< below it lies what the curve does not get right
constexpr std::uint32_t remembered_steps = 50; ///< of the noise and of a point
constexpr std::uint32_t averaged_steps = 100;  ///< of the pace
constexpr std::uint32_t estimate_steps = 5;    ///< before which a worker says nothing of itself
constexpr double least_slope = 0.25;           ///< of the seconds per sample, as beyond the points of a curve
constexpr double few_steps = 8;                ///< at so many the variance may be twice what was measured
constexpr double spread_clipped = 5;           ///< times the variance that a step counts as at most
constexpr double line_width = 1.25;            ///< from batch / 1.25 to batch * 1.25
constexpr double change_reported = 13.8;       ///< of the logarithm, either way: a factor of a million

/// By Siegmund's approximation steady noise gives x more evidence e^(2 * drift * x) times as rarely: so an hour has as
/// many false alarms however short steps are.
double threshold_of(double seconds) {
  return threshold + std::max(0.0, std::log(short_seconds / seconds) / (2 * drift));
}

} // namespace

bool pace_tracker::suspicion::add(double deviations, double ratio, double enough) {
  evidence += deviations - drift;
  if (evidence <= 0) {
    *this = {};
    return false;
  }
  ratio_sum += ratio;
  ++steps;
  return evidence > enough;
}

pace_tracker::point* pace_tracker::find(double batch) {
  const auto distance = [&](const point& each) { return std::abs(each.batch - batch); };
  const auto nearest = std::ranges::min_element(points_, {}, distance);
  return nearest != points_.end() && distance(*nearest) <= near_batch * nearest->batch ? &*nearest : nullptr;
}

void pace_tracker::fit() {
  std::vector<step_time> points;
  std::vector<double> weights;
  for (const auto& each : points_) {
    points.push_back({each.batch, std::exp(each.log_seconds)});
    weights.push_back(each.weight);
  }
  curve_ = step_time_curve(make_monotone(std::move(points), weights));
}

double pace_tracker::seconds(double batch) const {
  return curve_.seconds(batch) * std::exp(pace_);
}

/// What a first step at a batch size beyond all others is taken for: it may have been interrupted, and says no more
/// than a factor beyond what a fixed or a proportional cost would make of the nearest point.
double pace_tracker::possible(double batch, double log_seconds) const {
  if (points_.empty())
    return log_seconds;
  const double nearest = std::clamp(batch, points_.front().batch, points_.back().batch);
  const double fixed = std::log(curve_.seconds(nearest));
  const double proportional = fixed + std::log(batch / nearest);
  const double margin = std::log(believed_factor);
  return std::clamp(log_seconds, std::min(fixed, proportional) - margin, std::max(fixed, proportional) + margin);
}

void pace_tracker::measure(double batch, double seconds) {
  if (!std::isfinite(batch) || !std::isfinite(seconds) || batch <= 0 || seconds <= 0)
    return;
  measured_steps_ = std::min(measured_steps_ + 1, estimate_steps);
  auto* known = find(batch);
  const bool between = !points_.empty() && batch > points_.front().batch && batch < points_.back().batch;
  if (known == nullptr && !between) { // what is expected here is a guess, which says nothing of a change of speed
    const point fresh{.batch = batch, .log_seconds = possible(batch, std::log(seconds) - pace_), .weight = 1};
    if (points_.size() == points_max) // what is the furthest from here says the least
      points_.erase(batch > points_.back().batch ? points_.begin() : points_.end() - 1);
    points_.insert(std::ranges::lower_bound(points_, batch, {}, &point::batch), fresh);
    fit();
    return;
  }
  const double ratio = std::log(seconds / curve_.seconds(batch));
  spread(ratio);
  const double variance = std::max(varied_steps_ == 0 ? first_variance : variance_, least_variance);
  const double deviation = std::sqrt(variance);
  const double deviations = std::clamp((ratio - pace_) / deviation, -outlying, outlying);
  const double counted = pace_ + deviations * deviation;
  const double enough = threshold_of(this->seconds(batch));
  const bool slower = slower_.add(deviations, counted, enough);
  const bool faster = faster_.add(-deviations, counted, enough);
  // One step may be as far out as an evaluation behind it made it; a second one in a row tells the new speed.
  const bool outlier = std::abs(deviations) == outlying;
  const bool again = outlier && deviations == outlier_before_;
  outlier_before_ = outlier ? deviations : 0;
  if (slower || faster || again) {
    const auto& found = slower ? slower_ : faster_;
    const double pace = again ? ratio : found.ratio_sum / found.steps;
    newest_change_ = std::exp(std::clamp(pace - pace_, -change_reported, change_reported));
    pace_ = pace;
    paced_steps_ = again ? 1 : found.steps;
    slower_ = faster_ = {};
    ++changes_;
    return;
  }
  const double residual = std::clamp(deviations, -clipped, clipped) * deviation;
  varied_steps_ = std::min(varied_steps_ + 1, remembered_steps);
  if (varied_steps_ == 1)
    variance_ = first_variance;
  variance_ += (residual * residual / clipped_variance - variance_) / (varied_steps_ + 1);
  paced_steps_ = std::min(paced_steps_ + 1, averaged_steps);
  const double expected = std::log(curve_.seconds(batch)) + pace_ + residual;
  pace_ += residual / (paced_steps_ + 1);
  if (known == nullptr)
    return;
  known->weight = std::min(known->weight + 1, static_cast<double>(remembered_steps));
  known->batch += (batch - known->batch) / known->weight;
  known->log_seconds += (expected - pace_ - known->log_seconds) / known->weight;
  fit();
}

/// Half the squared differences of steps that follow each other: whatever the pace, and a change of it counts once, and
/// as no more than what noise would hardly do.
void pace_tracker::spread(double ratio) {
  if (spread_steps_ > 0) {
    const double difference = ratio - ratio_before_;
    const double most = spread_clipped * std::max(spread_, least_variance);
    spread_ += (std::min(difference * difference / 2, most) - spread_) / (spread_steps_ + 1);
  }
  ratio_before_ = ratio;
  spread_steps_ = std::min<std::uint32_t>(spread_steps_ + 1, remembered_steps);
}

pace_estimate pace_tracker::estimate(double batch) const {
  if (measured_steps_ < estimate_steps || !(batch > 0))
    return {};
  const double low = batch / line_width;
  const double high = batch * line_width;
  const double at = seconds(batch);
  const double slope = std::max((seconds(high) - seconds(low)) / (high - low), least_slope * at / batch);
  const double variance = std::max(spread_, least_variance) * (1 + few_steps / spread_steps_);
  return checked({.fixed_seconds = at - slope * batch,
                  .sample_seconds = slope,
                  .error = std::sqrt(variance / (paced_steps_ + 1))});
}

pace_estimate checked(const pace_estimate& told) {
  const bool possible = told.sample_seconds > 0 && told.sample_seconds <= messages::max_seconds &&
                        std::abs(told.fixed_seconds) <= messages::max_seconds && told.error >= 0 && told.error <= 1;
  return possible ? told : pace_estimate{};
}

} // namespace dynamix::policy
