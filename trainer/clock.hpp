#pragma once

namespace dynamix::trainer {

/// Time as the trainer sees it; a test can fake it.
class clock {
public:
  virtual ~clock() = default;
  /// Monotonic seconds since an arbitrary origin.
  virtual double now_seconds() const = 0;
  virtual void sleep_seconds(double seconds) = 0;
};

/// The machine's monotonic clock.
class steady_clock final : public clock {
public:
  double now_seconds() const override;
  void sleep_seconds(double seconds) override;
};

} // namespace dynamix::trainer
