#include "policy/step_time_table.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dynamix::policy {
namespace {

constexpr double same_batch = 0.1;       ///< relative distance within which measurements share a point
constexpr double young_measurements = 2; ///< of a point, for the pace to take half of its part
constexpr double retention = 0.9;        ///< of a point's weight at each measurement
constexpr double pace_weight = 0.5;      ///< of a measurement, in the logarithm
constexpr double point_weight = 0.2;     ///< of what the pace does not explain
constexpr double pace_range = 1e6;       ///< either way; a peer's nonsense must not make it 0 or infinite
constexpr double lightest_weight = 1e-6; ///< so that weights never vanish altogether
constexpr double change_of_speed = 1.25; ///< ratio of measured to expected seconds, or its inverse
constexpr double hoped_variable = 0.5;   ///< share of a step's time that grows with the batch, after one point
constexpr double lowest_variable = 0.25; ///< least share of a step's time that grows with the batch, where unmeasured

double slope(const step_time& from, const step_time& to) {
  return (to.seconds - from.seconds) / (to.batch - from.batch);
}

double allowed_slope(double measured, const step_time& at) {
  const auto proportional = at.seconds / at.batch;
  return std::clamp(measured, lowest_variable * proportional, proportional);
}

} // namespace

std::vector<step_time> make_monotone(std::vector<step_time> points, std::span<const double> weights) {
  struct block {
    double seconds;
    double weight;
    std::size_t points;
  };
  std::vector<block> blocks;
  for (std::size_t i = 0; i < points.size(); ++i) {
    blocks.push_back({points[i].seconds, weights[i], 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].seconds > blocks.back().seconds) {
      const auto right = blocks.back();
      blocks.pop_back();
      auto& left = blocks.back();
      left = {(left.seconds * left.weight + right.seconds * right.weight) / (left.weight + right.weight),
              left.weight + right.weight, left.points + right.points};
    }
  }
  std::size_t next = 0;
  for (const auto& each : blocks)
    for (std::size_t i = 0; i < each.points; ++i)
      points[next++].seconds = each.seconds;
  return points;
}

step_time_curve::step_time_curve(std::vector<step_time> points) : points_(std::move(points)) {
  if (points_.empty())
    return;
  const auto& first = points_.front();
  const auto& last = points_.back();
  const auto one = points_.size() == 1;
  first_slope_ = one ? first.seconds / first.batch : allowed_slope(slope(first, points_[1]), first);
  last_slope_ = one ? hoped_variable * first_slope_ : allowed_slope(slope(points_[points_.size() - 2], last), last);
}

double step_time_curve::seconds(double batch) const {
  const auto above = std::ranges::lower_bound(points_, batch, {}, &step_time::batch);
  if (above == points_.begin())
    return above->seconds - first_slope_ * (above->batch - batch);
  const auto& below = *(above - 1);
  return below.seconds + (above == points_.end() ? last_slope_ : slope(below, *above)) * (batch - below.batch);
}

double step_time_curve::batch_within(double seconds) const {
  // The first point that takes longer: the end of a flat piece at exactly `seconds` is still allowed.
  const auto above = std::ranges::upper_bound(points_, seconds, {}, &step_time::seconds);
  if (above == points_.begin())
    return std::max(0.0, above->batch - (above->seconds - seconds) / first_slope_);
  const auto& below = *(above - 1);
  return below.batch + (seconds - below.seconds) / (above == points_.end() ? last_slope_ : slope(below, *above));
}

void step_time_table::measure(double batch, double seconds, double pace_change) {
  if (!std::isfinite(batch) || !std::isfinite(seconds) || batch <= 0 || seconds <= 0)
    return;
  if (pace_change > 0 && !points_.empty()) {
    if (follow(pace_change, batch, seconds))
      join(batch, seconds / told_pace_);
  } else {
    if (!far_off(batch, seconds)) {
      if (const auto found = find(batch); found != points_.end())
        change_pace(std::pow(seconds / curve_.seconds(batch),
                             pace_weight * found->measurements / (found->measurements + young_measurements)));
      join(batch, seconds / pace_);
    }
    told_pace_ = pace_;
  }
  curve_ = fit();
}

bool step_time_table::follow(double pace_change, double batch, double seconds) {
  const auto at_first_pace = curve_.seconds(batch) / pace_;
  told_pace_ = std::clamp(told_pace_ * pace_change, 1 / pace_range, pace_range);
  const auto off = told_pace_ / pace_;
  const auto before = std::exchange(suspected_, 1);
  if ((off <= change_of_speed && off >= 1 / change_of_speed) || (before != 1 && (off > 1) == (before > 1)))
    pace_ = told_pace_;
  else
    suspected_ = off;
  const auto ratio = seconds / (at_first_pace * told_pace_);
  return !between_points(batch) || (ratio <= change_of_speed && ratio >= 1 / change_of_speed);
}

std::vector<step_time_table::point>::iterator step_time_table::find(double batch) {
  const auto distance = [&](const point& each) { return std::abs(each.mean.batch - batch); };
  const auto nearest = std::ranges::min_element(points_, {}, distance);
  return nearest != points_.end() && distance(*nearest) <= same_batch * nearest->mean.batch ? nearest : points_.end();
}

bool step_time_table::between_points(double batch) const {
  return !points_.empty() && batch >= (1 - same_batch) * points_.front().mean.batch &&
         batch <= (1 + same_batch) * points_.back().mean.batch;
}

void step_time_table::change_pace(double factor) {
  pace_ = std::clamp(pace_ * factor, 1 / pace_range, pace_range);
}

bool step_time_table::far_off(double batch, double seconds) {
  const auto before = std::exchange(suspected_, 1);
  if (points_.empty())
    return false;
  const auto ratio = seconds / curve_.seconds(batch);
  if (!between_points(batch)) { // what is expected here is a guess, good enough to tell which speed it is
    if (std::abs(std::log(ratio / before)) < std::abs(std::log(ratio)))
      change_pace(before);
    return false;
  }
  if (ratio <= change_of_speed && ratio >= 1 / change_of_speed)
    return false;
  if (before != 1 && (ratio > 1) == (before > 1))
    change_pace(ratio);
  else
    suspected_ = ratio;
  return true;
}

void step_time_table::join(double batch, double seconds) {
  for (auto& each : points_)
    each.weight = std::max(lightest_weight, each.weight * retention);
  if (const auto found = find(batch); found != points_.end()) {
    auto& [mean, weight, measurements] = *found;
    const double share = std::max(point_weight, 1 / ++measurements);
    mean.batch += share * (batch - mean.batch);
    mean.seconds += share * (seconds - mean.seconds);
    weight += 1;
    return;
  }
  if (points_.size() == points_max)
    points_.erase(std::ranges::min_element(points_, {}, &point::weight));
  const auto place = std::ranges::lower_bound(points_, batch, {}, [](const point& each) { return each.mean.batch; });
  points_.insert(place, {.mean = {.batch = batch, .seconds = seconds}, .weight = 1, .measurements = 1});
}

step_time_curve step_time_table::fit() const {
  std::vector<step_time> points;
  std::vector<double> weights;
  for (const auto& each : points_) {
    points.push_back(each.mean);
    weights.push_back(each.weight);
  }
  points = make_monotone(std::move(points), weights);
  for (auto& each : points)
    each.seconds *= pace_;
  return step_time_curve(std::move(points));
}

} // namespace dynamix::policy
