#include "exchange/interruption.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace dynamix::exchange {

/// Shared with the events, which may outlive the interruption.
struct interruption::bell {
  std::mutex mutex;
  std::condition_variable rung;
  bool raised = false;
  std::string reason;
};

interruption::interruption() : bell_(std::make_shared<bell>()) {}

void interruption::raise(std::string reason) {
  const std::lock_guard lock(bell_->mutex);
  if (bell_->raised)
    return;
  bell_->raised = true;
  bell_->reason = std::move(reason);
  bell_->rung.notify_all();
}

bool interruption::raised() const {
  const std::lock_guard lock(bell_->mutex);
  return bell_->raised;
}

std::string interruption::reason() const {
  const std::lock_guard lock(bell_->mutex);
  return bell_->reason;
}

void interruption::event::complete() {
  const std::lock_guard lock(wakes_->mutex);
  completed_ = true;
  wakes_->rung.notify_all();
}

std::shared_ptr<interruption::event> interruption::make_event() const {
  return std::shared_ptr<event>(new event(bell_));
}

bool interruption::wait(const event& awaited) const {
  std::unique_lock lock(bell_->mutex);
  bell_->rung.wait(lock, [&] { return awaited.completed_ || bell_->raised; });
  return awaited.completed_;
}

bool interruption::wait_for(const event& awaited, double seconds) const {
  std::unique_lock lock(bell_->mutex);
  bell_->rung.wait_for(lock, std::chrono::duration<double>(seconds),
                       [&] { return awaited.completed_ || bell_->raised; });
  return awaited.completed_;
}

bool interruption::wait_for(double seconds) const {
  std::unique_lock lock(bell_->mutex);
  return bell_->rung.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return bell_->raised; });
}

} // namespace dynamix::exchange
