#include "actors/host.hpp"

#include "actors/host_events.hpp"
#include "actors/host_services.hpp"
#include "actors/system.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <thread>

namespace dynamix::actors {

namespace {

constexpr std::chrono::milliseconds poll_interval{50};

/// Waits until the host's parts have ended. A stop that is asked for gets as long as the slowest window may take.
void wait_until_ended(host_services& services, host_events& events, std::stop_token stop, std::chrono::milliseconds patience) {
  bool stopping = false;
  std::chrono::steady_clock::time_point deadline;
  while (!events.wait_ended(services.has_worker(), services.has_arbitrator(), poll_interval)) {
    const auto now = std::chrono::steady_clock::now();
    if (stop.stop_requested() && !stopping) {
      spdlog::info("stopping at the next window boundary");
      services.stop();
      stopping = true;
      deadline = now + patience;
    }
    if (stopping && now > deadline)
      events.failed("training did not reach a window boundary in time after the stop was asked for");
  }
}

struct system_owner {
  std::unique_ptr<system_config> config;
  std::unique_ptr<caf::actor_system> system;
  std::unique_ptr<host_services> services;
};

/// Ends the actor system, but not for longer than `patience`: a detached or blocked actor must not keep a host from ending.
/// Then the rest is left to the process's end.
void shut_down(std::shared_ptr<system_owner> owner, std::chrono::milliseconds patience) {
  owner->services->shut_down();
  auto promise = std::make_shared<std::promise<void>>();
  auto done = promise->get_future();
  std::thread([owner = std::move(owner), promise]() mutable {
    owner->system.reset();
    owner.reset();
    promise->set_value();
  }).detach();
  if (done.wait_for(patience) != std::future_status::ready)
    spdlog::warn("actors_still_running after the shutdown time-out; leaving them to the process's end");
}

host_outcome sum_up(const host_services& services, const host_events::snapshot& ended) {
  host_outcome outcome{.farewell = ended.farewell,
                       .evaluations = ended.evaluations,
                       .farewells = ended.farewells,
                       .checkpoint = ended.checkpoint};
  if (ended.failure) {
    outcome.reason = *ended.failure;
    return outcome;
  }
  const auto& last = services.has_arbitrator() ? ended.arbitrator : ended.worker;
  outcome.succeeded = (!ended.worker || ended.worker->succeeded) && (!ended.arbitrator || ended.arbitrator->succeeded);
  outcome.reason = ended.worker && !ended.worker->succeeded ? ended.worker->reason : last->reason;
  return outcome;
}

} // namespace

host_outcome run_host(const host_options& options, std::stop_token stop) {
  if (options.file.find(options.host) == nullptr)
    return {.reason = "host " + options.host + " is not in the cluster file"};
  try {
    const auto timeouts = cluster::derive_timeouts(options.file.detect_ms);
    auto events = std::make_shared<host_events>();
    auto owner = std::make_shared<system_owner>();
    owner->config = std::make_unique<system_config>(timeouts);
    owner->system = std::make_unique<caf::actor_system>(*owner->config);
    owner->services = std::make_unique<host_services>(*owner->system, options, events);
    auto& services = *owner->services;
    host_outcome outcome;
    if (auto error = services.start(); !error.empty()) {
      outcome.reason = error;
    } else {
      wait_until_ended(services, *events, stop, std::chrono::milliseconds(10 * timeouts.shutdown_timeout_ms));
      outcome = sum_up(services, events->take());
    }
    shut_down(std::move(owner), std::chrono::milliseconds(timeouts.shutdown_timeout_ms));
    return outcome;
  } catch (const std::exception& error) {
    return {.reason = error.what()};
  }
}

} // namespace dynamix::actors
