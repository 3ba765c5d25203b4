#pragma once

#include <vector>

namespace dynamix::simulator {

/// How many times as long as alone a host takes for its work from a moment on: constant pieces, the last one endless.
class slowdown_course {
public:
  /// Always the same, > 0.
  slowdown_course(double factor) : pieces_{{.factor = factor}} {} // NOLINT(google-explicit-constructor)
  /// Another factor from so many seconds on, which rise from call to call.
  void change_at(double seconds, double factor);

  /// What holds at first.
  double factor() const { return pieces_.front().factor; }
  /// For how long; infinite where nothing changes.
  double constant_seconds() const;
  /// Seconds until so many seconds' work is done.
  double seconds(double work) const;
  /// The inverse.
  double work_within(double seconds) const;

private:
  struct piece {
    double begin = 0; ///< seconds
    double done = 0;  ///< seconds of work before it
    double factor = 1;
  };
  std::vector<piece> pieces_;
};

} // namespace dynamix::simulator
