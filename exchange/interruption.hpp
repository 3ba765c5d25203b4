#pragma once

#include <memory>
#include <string>

namespace dynamix::exchange {

/// Ends a generation from outside. Any thread raises it; the training thread leaves its waits at once. Stays raised:
/// the next generation has one of its own.
class interruption {
  struct bell;

public:
  interruption();
  interruption(const interruption&) = delete;
  interruption& operator=(const interruption&) = delete;

  /// The first reason stands.
  void raise(std::string reason);
  bool raised() const;
  /// Empty while nothing was raised.
  std::string reason() const;

  /// Something that a thread waits for beside the interruption. May be completed by any thread, also after the
  /// interruption is gone: what was waited for in vain completes when it likes.
  class event {
  public:
    void complete();

  private:
    friend class interruption;
    explicit event(std::shared_ptr<bell> wakes) : wakes_(std::move(wakes)) {}
    std::shared_ptr<bell> wakes_;
    bool completed_ = false; ///< guarded by the bell's mutex
  };
  std::shared_ptr<event> make_event() const;
  /// Blocks until the event is completed or the interruption is raised. True when it is completed.
  bool wait(const event& awaited) const;
  /// The same for at most `seconds`.
  bool wait_for(const event& awaited, double seconds) const;
  /// Sleeps, at most until the interruption is raised. True when it is.
  bool wait_for(double seconds) const;

private:
  std::shared_ptr<bell> bell_;
};

} // namespace dynamix::exchange
