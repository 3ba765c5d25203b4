#include "actors/host_events.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::actors {

namespace {

part_outcome outcome_of(const std::vector<worker_end>& workers) {
  const auto failed = std::ranges::find(workers, false, [](const auto& one) { return one.outcome.succeeded; });
  if (workers.size() == 1 || failed == workers.end())
    return workers.front().outcome;
  auto outcome = failed->outcome;
  if (!failed->farewell.host.empty())
    outcome.reason = failed->farewell.host + ": " + outcome.reason;
  return outcome;
}

} // namespace

void host_events::worker_ended(worker_end end, std::string checkpoint) {
  const std::scoped_lock lock(mutex_);
  state_.workers.push_back(std::move(end));
  if (state_.workers.size() == workers_)
    state_.worker = outcome_of(state_.workers);
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
