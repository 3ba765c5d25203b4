#pragma once

/// How long a worker computes for a step, as a function of its batch size: measured, not assumed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::policy {

struct step_time {
  double batch = 0;
  double seconds = 0;
};

/// The points with the nearest seconds, in weighted squares, that never fall: isotonic regression by pooling adjacent
/// violators (Barlow et al. 1972). One weight > 0 a point.
std::vector<step_time> make_monotone(std::vector<step_time> points, std::span<const double> weights);

/// A monotone step time t(b). Between two points it is linear. Beyond them it goes on as a + c*b with the slope of the
/// outermost piece, where c is at most t/b (so that the fixed cost a is not negative) and at least a quarter of it (a
/// flat piece promises no free samples where nothing was measured). A single point gives t proportional to b below it,
/// and above it c = t/b/2: hope that half of the step is fixed, without which nobody would ever look (Pollux, arXiv
/// 2008.12260, explores on the same ground: what was not tried is taken to scale well).
class step_time_curve {
public:
  step_time_curve() = default;
  /// Rising in batch, not falling in seconds, all > 0.
  explicit step_time_curve(std::vector<step_time> points);

  bool empty() const { return points_.empty(); }
  /// t(batch), > 0. Not for an empty curve.
  double seconds(double batch) const;
  /// The largest batch that takes at most so many seconds; 0 where even the fixed cost takes longer. Not for an empty
  /// curve.
  double batch_within(double seconds) const;

private:
  std::vector<step_time> points_;
  double first_slope_ = 0;
  double last_slope_ = 0;
};

/// Learns the curve of one worker from its windows, as a shape times a pace: a host whose speed changes (a throttled
/// device, a co-tenant) is as much slower or faster at every batch size, which a table of times would have to learn
/// anew point by point.
///
/// A measurement within 10 % of a point's batch size moves the pace half of the way, and the point a fifth of what is
/// left. Of a point that was measured a few times only the pace takes less and the point more: the first time may have
/// been chance, for which the pace would change all other points. One elsewhere becomes a point, at the pace as it is.
/// `curve` makes the points monotone, the older the lighter.
///
/// A measurement between the smallest and the largest batch size measured that lies beyond 25 % of the curve is a
/// hiccup, and is left out, or a change of speed, if the next is beyond it on the same side, or is elsewhere and speaks
/// for it: then the pace follows at once, and no point is touched.
class step_time_table {
public:
  static constexpr std::size_t points_max = 64; ///< beyond that the lightest is dropped

  /// One window at this batch size took so many seconds per step. Ignored unless both are finite and > 0.
  /// `pace_change`: how much slower the worker has found itself since the last window, by its own steps; 0 where it
  /// does not know. A worker whose batch size follows its pace within windows is measured at small ones when it is slow
  /// and at large ones when it is fast, so without it the shape would be taken for flat.
  void measure(double batch, double seconds, double pace_change = 0);
  /// Whether a batch size lies among those measured, give or take 10 %.
  bool between_points(double batch) const;
  const step_time_curve& curve() const { return curve_; }

private:
  struct point {
    step_time mean; ///< seconds at pace 1
    double weight = 0;
    double measurements = 0;
  };
  /// The point that a measurement joins, or `points_.end()`.
  std::vector<point>::iterator find(double batch);
  /// Whether the measurement lies beyond 25 %. Takes it for a change of pace where the one before did too.
  bool far_off(double batch, double seconds);
  /// Takes what the worker says of its pace. The plan follows a change by more than 25 % in the second window, so that
  /// a hiccup moves no plan; the shape is learned at the pace that is told. Whether the measurement fits it: one that a
  /// change fell into does not.
  bool follow(double pace_change, double batch, double seconds);
  void change_pace(double factor);
  /// `seconds`: at pace 1.
  void join(double batch, double seconds);
  step_time_curve fit() const;

  std::vector<point> points_; ///< rising in batch
  double pace_ = 1;           ///< factor on the points' seconds
  double told_pace_ = 1;      ///< by the worker itself, where it does
  double suspected_ = 1;      ///< measured / expected of the last measurement, where it was left out; else 1
  step_time_curve curve_;
};

} // namespace dynamix::policy
