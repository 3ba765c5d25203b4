#include "actors/host/host.hpp"

#include "actors/aggregator/run_outcome.hpp"
#include "actors/host/host_services.hpp"
#include "actors/host_events.hpp"
#include "actors/system.hpp"
#include "messages/leave.hpp"
#include "policy/learner.hpp"
#include "session/leave.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace dynamix::actors {

namespace {

constexpr std::chrono::milliseconds poll_interval{50};

/// Its workers have come to the end of training, as all others have or will.
bool is_training_over(const host_events::snapshot& ended) {
  return ended.worker &&
         std::ranges::all_of(ended.workers, [](const auto& worker) { return worker.farewell.succeeded; });
}

/// Tells whoever watches this process that it is alive, as long as its supervision is.
class pulse {
public:
  explicit pulse(const host_watch& watch) : watch_(watch) {}

  void beat(host_services& services) {
    const auto now = std::chrono::steady_clock::now();
    if (watch_.alive_interval.count() == 0 || now < next_)
      return;
    const auto patience = watch_.alive_interval / 4;
    if (services.supervision_answers(patience)) {
      watch_.alive();
      next_ = now + watch_.alive_interval;
    } else {
      spdlog::error("supervision_hangs for {} ms: whoever watches this process is not told that it is alive",
                    patience.count());
      next_ = now + patience; // again, before whoever watches gives up
    }
  }

private:
  const host_watch& watch_;
  std::chrono::steady_clock::time_point next_;
};

/// Waits until the host's parts have ended. A stop that is asked for gets as long as the slowest window may take.
/// True if the host leaves, and the others go on.
bool wait_until_ended(host_services& services, host_events& events, const host_stop_tokens& stop,
                      std::chrono::milliseconds patience, pulse watched) {
  std::optional<session::host_stop> asked;
  std::chrono::steady_clock::time_point deadline;
  bool leaves = false;
  while (!events.wait_ended(services.has_worker(), services.has_arbitrator() && !leaves, poll_interval)) {
    watched.beat(services);
    const auto now = std::chrono::steady_clock::now();
    if (stop.stop.stop_requested() && !asked) {
      asked = session::decide_host_stop(stop.one_host.stop_requested(), services.roles());
      spdlog::info("stop_asked {}", asked->reason);
      asked->leaves ? services.leave() : services.stop();
      deadline = now + patience;
    }
    // A leave of the last worker is the end of training, which its arbitrator is to see.
    leaves = asked && asked->leaves && !is_training_over(events.take());
    if (asked && now > deadline)
      events.failed("the workers did not agree in time to stop");
  }
  return leaves && !is_training_over(events.take());
}

host_outcome sum_up(const host_events::snapshot& ended, bool left) {
  host_outcome outcome{
      .left = left, .workers = ended.workers, .farewells = ended.farewells, .checkpoint = ended.checkpoint};
  if (ended.failure) {
    outcome.left = false;
    outcome.reason = *ended.failure;
    return outcome;
  }
  outcome.succeeded = (!ended.worker || ended.worker->succeeded) && (!ended.arbitrator || ended.arbitrator->succeeded);
  const auto tell = [&outcome](const part_outcome& part) {
    outcome.reason = part.reason;
    outcome.stopped = part.stopped;
  };
  if (ended.worker && (!ended.worker->succeeded || !ended.arbitrator))
    tell(*ended.worker);
  else if (ended.arbitrator)
    tell(*ended.arbitrator);
  else
    outcome.reason = fmt::format("{}its host was asked to end", messages::leave_mark);
  return outcome;
}

/// From their start to their end.
void serve(host_services& services, host_events& events, const host_options& options, const host_stop_tokens& stop,
           std::promise<host_outcome>& outcome) {
  const auto timeouts = cluster::derive_timeouts(options.file->detect_ms);
  if (auto error = services.start(); !error.empty())
    return outcome.set_value({.reason = error});
  if (options.watch.started)
    options.watch.started();
  const bool left = wait_until_ended(
      services, events, stop, std::chrono::milliseconds(10 * timeouts.shutdown_timeout_ms), pulse(options.watch));
  if (options.watch.ending)
    options.watch.ending();
  const auto last = events.take();
  const auto ended = sum_up(last, left);
  if (ends_run(last, left, stop.stop.stop_requested()))
    services.tell_end({ended.succeeded, ended.reason, ended.stopped});
  outcome.set_value(ended);
  // Those below it in a tree were given their next place through its connections, and meet through them.
  if (ended.left && services.has_arbitrator() && !services.roles().arbitrates)
    std::this_thread::sleep_for(std::chrono::milliseconds(timeouts.request_timeout_ms));
}

/// The whole life of a host's actors. The outcome is told before they are taken down.
void live(const host_options& options, const host_links& links, const host_stop_tokens& stop,
          std::promise<host_outcome>& outcome) {
  auto events = std::make_shared<host_events>(options.own()->members().size());
  std::optional<host_services> services; // outlives the system: its supervisors call back until they are gone
  system_config config(cluster::derive_timeouts(options.file->detect_ms));
  caf::actor_system system(config);
  services.emplace(system, options, events, links);
  try {
    serve(*services, *events, options, stop, outcome);
  } catch (...) {
    services->shut_down(); // the system's end waits for every actor
    throw;
  }
  services->shut_down();
}

/// With links where the host has keys. What its actors have written last is sent when they are gone.
void live_with_links(const host_options& options, const host_stop_tokens& stop, std::promise<host_outcome>& outcome) {
  host_links links;
  if (const auto problem = start_links(options, links); !problem.empty())
    return outcome.set_value({.reason = problem});
  live(options, links, stop, outcome);
  end_links(links);
}

/// As `live`, with what went wrong in CAF or in a policy's making as the outcome.
void live_guarded(const host_options& options, const host_stop_tokens& stop, std::promise<host_outcome>& outcome) {
  try {
    live_with_links(options, stop, outcome);
  } catch (const std::exception& error) {
    try {
      outcome.set_value({.reason = error.what()});
    } catch (const std::future_error&) { // it was told before
      spdlog::error("host_end_failed {}", error.what());
    }
  }
}

} // namespace

bool host_options::trains() const {
  return own()->takes_part() && !without_worker && file->training.trainer != cluster::trainer_kind::client;
}

bool host_options::learns() const {
  return own()->has(cluster::role::arbitrator) && policy::learns(*file);
}

host_outcome run_host(const host_options& options, const host_stop_tokens& stop) {
  if (options.own() == nullptr)
    return {.reason = "host " + options.host + " is not in the cluster file"};
  if ((options.trains() || options.learns()) && options.training == nullptr)
    return {.reason = "host " + options.host + " would train, and nothing that trains is loaded"};
  // A thread of its own, since CAF must be taken down by the thread that set it up, and a detached or blocked actor
  // must not keep the host from ending.
  std::promise<host_outcome> outcome;
  std::promise<void> gone;
  auto told = outcome.get_future();
  auto taken_down = gone.get_future();
  std::thread([options, stop, outcome = std::move(outcome), gone = std::move(gone)]() mutable {
    live_guarded(options, stop, outcome);
    gone.set_value();
  }).detach();
  auto result = told.get();
  const auto patience = cluster::derive_timeouts(options.file->detect_ms).shutdown_timeout_ms;
  if (taken_down.wait_for(std::chrono::milliseconds(patience)) != std::future_status::ready)
    spdlog::warn("actors_still_running after the shutdown time-out; left to the process's end");
  return result;
}

} // namespace dynamix::actors
