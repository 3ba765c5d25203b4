#include "node/launcher.hpp"

#include "node/ledger_tail.hpp"
#include "node/progress.hpp"
#include "node/text.hpp"

#include <algorithm>
#include <csignal>
#include <deque>
#include <fstream>
#include <thread>

namespace dynamix::node {
namespace {

using time_point = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

constexpr milliseconds look_interval{100};
constexpr std::size_t log_lines_shown = 8;

struct host_process {
  const cluster::host* host;
  child_process process;
  bool seen_ended = false;

  bool is_worker() const { return host->has(cluster::role::worker); }
};

/// The run between the first process's start and the last one's end:
///
///   training -> failing   a worker has ended badly; the others write a checkpoint and end
///   training -> stopping  a stop was asked for, and passed on
///   training -> ending    all workers have ended; the arbitrator has the last word
///   each of these, when its time is over -> terminated -> killed
class launched_run {
public:
  launched_run(const launch_options& options, live_output& output)
      : options_(options), output_(output), timeouts_(cluster::derive_timeouts(options.file.detect_ms)),
        tail_(options.run.ledger()) {}

  std::string start() {
    for (const auto& host : options_.file.hosts) {
      processes_.push_back({&host, {}});
      if (auto problem = processes_.back().process.start(child_of(host)); !problem.empty())
        return "host \"" + host.name + "\": " + problem;
    }
    return "";
  }

  launch_outcome watch(const std::stop_token& stop) {
    while (look(stop))
      std::this_thread::sleep_for(look_interval);
    outcome_.succeeded = outcome_.error.empty() && !outcome_.stopped;
    return std::move(outcome_);
  }

private:
  enum class phase { training, stopping, failing, ending, terminated, killed };

  child_options child_of(const cluster::host& host) const {
    const std::string threads = std::to_string(options_.file.training.threads);
    child_options child{.program = options_.program,
                        .arguments = {"run", "--cluster", options_.run.cluster_file(), "--name", host.name,
                                      options_.resume ? "--resume" : "--out", options_.run.path(), "--log-to-stderr"},
                        .environment = {{"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}},
                        .output = options_.run.log(host.name)};
    if (options_.insecure)
      child.arguments.push_back("--insecure");
    return child;
  }

  /// One look at everything. False once all processes have ended.
  bool look(const std::stop_token& stop) {
    for (const auto& row : tail_.read())
      progress_.add(row);
    reap();
    if (stop.stop_requested() && phase_ == phase::training) {
      outcome_.stopped = true;
      output_.print("stopping at the next window boundary; a second Ctrl-C ends at once");
      signal_all(SIGINT);
      enter(phase::stopping, milliseconds(11 * timeouts_.shutdown_timeout_ms));
    }
    const bool training = any_running(true);
    if (!training && phase_ == phase::training)
      enter(phase::ending, milliseconds(3 * timeouts_.shutdown_timeout_ms));
    if (phase_ != phase::training && std::chrono::steady_clock::now() > deadline_)
      press();
    if (!options_.quiet && training && (phase_ == phase::training || phase_ == phase::stopping))
      output_.progress(arbitrator_gone_ ? "training without the arbitrator: no progress is recorded"
                                        : progress_line(progress_));
    return any_running(false);
  }

  void enter(phase next, milliseconds patience) {
    phase_ = next;
    deadline_ = std::chrono::steady_clock::now() + patience;
  }

  /// Somebody has not ended in time.
  void press() {
    const bool ask = phase_ != phase::terminated && phase_ != phase::killed;
    for (auto& each : processes_)
      if (each.process.running()) {
        outcome_.warnings.push_back("host " + each.host->name + " did not end in time and was " +
                                    (ask ? "terminated" : "killed"));
        each.process.signal(ask ? SIGTERM : SIGKILL);
      }
    enter(ask ? phase::terminated : phase::killed, milliseconds(timeouts_.shutdown_timeout_ms));
  }

  void signal_all(int number) {
    for (auto& each : processes_)
      each.process.signal(number);
  }

  bool any_running(bool workers_only) {
    return std::any_of(processes_.begin(), processes_.end(),
                       [&](auto& each) { return (!workers_only || each.is_worker()) && each.process.running(); });
  }

  /// Notices who has ended since the last look. When several have, a death by signal is the likelier cause than an
  /// error that it led to.
  void reap() {
    std::vector<std::pair<host_process*, child_exit>> ended;
    for (auto& each : processes_)
      if (const auto exit = each.process.poll(); exit && !each.seen_ended) {
        each.seen_ended = true;
        ended.emplace_back(&each, *exit);
      }
    std::stable_sort(ended.begin(), ended.end(), [](const auto& left, const auto& right) {
      return left.second.by_signal > right.second.by_signal;
    });
    for (const auto& [who, exit] : ended)
      if (!exit.well())
        ended_badly(*who, exit);
  }

  void ended_badly(const host_process& who, const child_exit& exit) {
    const std::string& name = who.host->name;
    if (!who.is_worker() && any_running(true) && phase_ == phase::training && progress_.training()) {
      arbitrator_gone_ = true;
      const std::string text =
          "the arbitrator " + name + " died (" + to_string(exit) + "); training goes on with the last batch sizes";
      outcome_.warnings.push_back(text);
      return output_.problem("warning: " + text);
    }
    // The first death is the cause, and ending badly is what a terminated process does.
    if (!outcome_.error.empty() || phase_ == phase::terminated || phase_ == phase::killed ||
        (!who.is_worker() && phase_ != phase::training))
      return;
    // A worker that hangs makes the others fail before anybody ends it.
    const std::string& lost = progress_.lost_host();
    const bool followed = !exit.by_signal && !lost.empty() && lost != name;
    outcome_.error =
        (followed ? "contact with host \"" + lost + "\" was lost; " : std::string()) + "host \"" + name + "\" died (" +
        to_string(exit) + ")" +
        (progress_.training() ? " " + duration(progress_.elapsed_seconds()) + " into training, in or after window " +
                                    std::to_string(progress_.window())
                              : " before training began");
    outcome_.last_words =
        "The end of " + options_.run.log(name) + ":\n" + last_lines(options_.run.log(name), log_lines_shown);
    if (phase_ != phase::training)
      return;
    output_.problem("error: host \"" + name + "\" died (" + to_string(exit) +
                    "); waiting for the others to write a checkpoint");
    // Peers in a collective notice at once; before that they would wait for ever for a worker that never comes.
    if (!progress_.training())
      signal_all(SIGINT);
    enter(phase::failing, milliseconds(timeouts_.collective_timeout_ms + timeouts_.shutdown_timeout_ms));
  }

  const launch_options& options_;
  live_output& output_;
  cluster::timeouts timeouts_;
  std::vector<host_process> processes_;
  ledger_tail tail_;
  progress progress_;
  phase phase_ = phase::training;
  time_point deadline_;
  bool arbitrator_gone_ = false;
  launch_outcome outcome_;
};

} // namespace

std::string last_lines(const std::string& path, std::size_t lines) {
  std::ifstream file(path);
  std::deque<std::string> kept;
  for (std::string line; std::getline(file, line);) {
    kept.push_back(std::move(line));
    if (kept.size() > lines)
      kept.pop_front();
  }
  std::string text;
  for (const auto& line : kept)
    text += "    " + printable(line) + "\n";
  return text.empty() ? "    (nothing)\n" : text;
}

launch_outcome launch(const launch_options& options, live_output& output, std::stop_token stop) {
  launched_run run(options, output);
  if (auto problem = run.start(); !problem.empty())
    return {.error = problem, .last_words = {}, .warnings = {}}; // the processes that did start end with `run`
  return run.watch(stop);
}

} // namespace dynamix::node
