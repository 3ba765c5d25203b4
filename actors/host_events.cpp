#include "actors/host_events.hpp"

#include <utility>

namespace dynamix::actors {

void host_events::worker_ended(part_outcome outcome, messages::farewell farewell,
                               std::vector<messages::evaluation_report> evaluations, std::string checkpoint) {
  const std::scoped_lock lock(mutex_);
  state_.worker = std::move(outcome);
  state_.farewell = std::move(farewell);
  state_.evaluations = std::move(evaluations);
  state_.checkpoint = std::move(checkpoint);
  changed_.notify_all();
}

void host_events::arbitrator_ended(part_outcome outcome, std::vector<messages::farewell> farewells) {
  const std::scoped_lock lock(mutex_);
  state_.arbitrator = std::move(outcome);
  state_.farewells = std::move(farewells);
  changed_.notify_all();
}

void host_events::failed(std::string reason) {
  const std::scoped_lock lock(mutex_);
  if (!state_.failure)
    state_.failure = std::move(reason);
  changed_.notify_all();
}

bool host_events::wait_ended(bool worker, bool arbitrator, std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(
      lock, wait, [&] { return state_.failure || ((!worker || state_.worker) && (!arbitrator || state_.arbitrator)); });
}

host_events::snapshot host_events::take() const {
  const std::scoped_lock lock(mutex_);
  return state_;
}

} // namespace dynamix::actors
