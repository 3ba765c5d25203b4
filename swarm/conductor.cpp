#include "swarm/conductor.hpp"

#include "cluster/decision_steps.hpp"
#include "swarm/clock.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <numeric>
#include <poll.h>
#include <utility>

namespace dynamix::swarm {
namespace {

using batches = std::vector<std::uint32_t>;

constexpr double ns_per_second = 1e9;
constexpr std::int64_t head_start_ns = 5 * ns_per_ms; ///< so that every part hears of a window's end before it
constexpr double answer_patience_seconds = 60;
constexpr int look_interval_ms = 100;

float seconds_between(std::int64_t from_ns, std::int64_t to_ns) {
  return static_cast<float>(static_cast<double>(to_ns - from_ns) / ns_per_second);
}

/// Of those that have not answered: one that has may end.
std::vector<std::size_t> find_readable(const std::vector<channel>& parts, const std::vector<bool>& answered) {
  std::vector<pollfd> wanted;
  for (std::size_t i = 0; i < parts.size(); ++i)
    wanted.push_back({.fd = answered[i] ? -1 : parts[i].descriptor(), .events = POLLIN, .revents = 0});
  std::vector<std::size_t> found;
  if (::poll(wanted.data(), wanted.size(), look_interval_ms) > 0)
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i].revents != 0)
        found.push_back(i);
  return found;
}

/// The parts as one: what each says goes to `take`, until all have given the awaited answer.
class part_group {
public:
  part_group(std::vector<channel>& parts, const std::stop_token& stop)
      : parts_(parts), stop_(stop), counted_(parts.size()), placed_(parts.size()) {}

  /// Empty, or what went wrong; `stopped` where the stop was asked for.
  template <class Take>
  std::string wait_for(verb answer, double patience_seconds, Take take) {
    std::vector<bool> answered(parts_.size());
    const auto deadline = monotonic_ns() + static_cast<std::int64_t>(patience_seconds * ns_per_second);
    while (std::ranges::count(answered, false) > 0) {
      if (stop_.stop_requested())
        return stopped;
      if (monotonic_ns() > deadline)
        return fmt::format("process {} of {} has not answered",
                           std::ranges::find(answered, false) - answered.begin() + 1, parts_.size());
      for (const auto index : find_readable(parts_, answered)) {
        const auto message = parts_[index].receive(std::chrono::milliseconds(0));
        if (!message)
          return fmt::format("process {} of the swarm has ended", index + 1);
        if (message->what == verb::failed)
          return message->text;
        counted_[index] = message->traffic;
        placed_[index] = message->placed;
        answered[index] = answered[index] || message->what == answer;
        take(*message);
      }
    }
    return {};
  }

  std::string tell(const part_message& message) {
    for (auto& part : parts_)
      if (!part.send(message))
        return "a process of the swarm has ended";
    return {};
  }

  swarm::traffic traffic() const { return std::accumulate(counted_.begin(), counted_.end(), swarm::traffic{}); }
  std::uint64_t placed() const { return std::accumulate(placed_.begin(), placed_.end(), std::uint64_t{0}); }

  static constexpr const char* stopped = "stopped before the end";

private:
  std::vector<channel>& parts_;
  const std::stop_token& stop_;
  std::vector<swarm::traffic> counted_;
  std::vector<std::uint64_t> placed_;
};

class conductor {
public:
  conductor(const conductor_options& options, std::vector<channel>& parts, const conductor_hooks& hooks,
            const std::stop_token& stop)
      : options_(options), parts_(parts, stop), hooks_(hooks), decided_(options.workers, options.initial_batch),
        decided_before_(decided_), in_force_(decided_) {}

  /// Empty, or what went wrong.
  std::string run() {
    auto problem = join();
    const auto last = std::uint64_t{options_.warm_up} + options_.windows;
    swarm::traffic before;
    std::int64_t began_ns = 0;
    for (std::uint64_t window = 1; problem.empty() && window <= last; ++window) {
      if (window == options_.warm_up + 1U) {
        hooks_.before_measured();
        before = parts_.traffic();
        began_ns = monotonic_ns();
      }
      problem = run_window(window);
    }
    if (!problem.empty())
      return problem;
    outcome.measured_seconds = seconds_between(began_ns, monotonic_ns());
    outcome.traffic = parts_.traffic() - before;
    hooks_.after_measured();
    return finish();
  }

  swarm_outcome outcome;

private:
  std::string join() {
    const auto began = monotonic_ns();
    auto problem = parts_.tell({.what = verb::join});
    if (problem.empty())
      problem = parts_.wait_for(verb::joined, options_.join_patience_seconds,
                                [&](const part_message&) { hooks_.joining(parts_.placed()); });
    outcome.join_seconds = seconds_between(began, monotonic_ns());
    return problem;
  }

  /// The batch sizes at the window's end; those of its first steps where they were others.
  part_message next_batches(std::uint64_t window) {
    part_message message{.what = verb::prepare, .window = window};
    const bool settles = cluster::settle_steps(options_.window_steps) > 0;
    message.batches = settles ? decided_ : decided_before_;
    if (settles && in_force_ != message.batches)
      message.settling = in_force_;
    in_force_ = message.batches;
    decided_before_ = decided_;
    return message;
  }

  std::string run_window(std::uint64_t window) {
    auto problem = parts_.tell(next_batches(window));
    if (problem.empty())
      problem = parts_.wait_for(verb::prepared, answer_patience_seconds, [](const part_message&) {});
    const bool counts = window > options_.warm_up;
    if (problem.empty() && counts)
      hooks_.before_window(window - options_.warm_up);
    const auto due_ns = end_ns_ + options_.interval_ms * ns_per_ms;
    const auto before_ns = std::exchange(end_ns_, std::max(due_ns, monotonic_ns() + head_start_ns));
    if (problem.empty())
      problem =
          parts_.tell({.what = verb::go, .window = window, .at_ns = end_ns_, .deadline_ns = end_ns_ + patience_ns()});
    last_applied_ = 0;
    if (problem.empty())
      problem = parts_.wait_for(verb::done, answer_patience_seconds + options_.decision_patience_seconds,
                                [&](const part_message& message) { take(message.workers, counts); });
    if (!problem.empty() || !counts)
      return problem;
    ++outcome.windows;
    outcome.on_time += before_ns == 0 || end_ns_ == due_ns ? 1 : 0;
    if (last_applied_ > 0) // else none has been
      outcome.last_applied.push_back(last_applied_);
    hooks_.after_window(outcome);
    return problem;
  }

  void take(const std::vector<worker_window>& workers, bool counts) {
    for (const auto& worker : workers) {
      decided_[worker.rank] = worker.batch;
      ++outcome.expected;
      if (worker.applied_ns == 0) {
        ++outcome.lost;
        continue;
      }
      ++outcome.applied;
      if (!counts)
        continue;
      outcome.end_to_applied.push_back(seconds_between(end_ns_, worker.applied_ns));
      if (worker.sent_ns != 0) // else another report stood in for its own
        outcome.sent_to_applied.push_back(seconds_between(worker.sent_ns, worker.applied_ns));
      last_applied_ = std::max(last_applied_, outcome.end_to_applied.back());
    }
  }

  std::string finish() {
    auto problem = parts_.tell({.what = verb::finish});
    if (problem.empty())
      problem = parts_.wait_for(verb::finished, answer_patience_seconds, [](const part_message&) {});
    outcome.farewells = parts_.placed();
    outcome.whole = parts_.traffic();
    return problem;
  }

  std::int64_t patience_ns() const {
    return static_cast<std::int64_t>(options_.decision_patience_seconds * ns_per_second);
  }

  const conductor_options& options_;
  part_group parts_;
  const conductor_hooks& hooks_;
  batches decided_; ///< newest, by rank
  batches decided_before_;
  batches in_force_; ///< at the end of the newest window
  std::int64_t end_ns_ = 0;
  float last_applied_ = 0;
};

} // namespace

swarm_outcome conduct(const conductor_options& options, std::vector<channel>& parts, const conductor_hooks& hooks,
                      const std::stop_token& stop) {
  conductor leading(options, parts, hooks, stop);
  const auto problem = leading.run();
  leading.outcome.stopped = stop.stop_requested();
  leading.outcome.failure = problem;
  return std::move(leading.outcome);
}

std::string wait_until_up(std::vector<channel>& parts, double patience_seconds, const std::stop_token& stop) {
  return part_group(parts, stop).wait_for(verb::up, patience_seconds, [](const part_message&) {});
}

} // namespace dynamix::swarm
