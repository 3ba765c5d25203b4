#include "node/launch/launcher.hpp"

#include "ledger/file.hpp"
#include "ledger/run.hpp"
#include "messages/leave.hpp"
#include "node/commands/command_line.hpp"
#include "node/reports/run_records.hpp"
#include "node/reports/text.hpp"

#include <csignal>
#include <cstdint>
#include <deque>
#include <fmt/core.h>
#include <fstream>
#include <sys/statvfs.h>
#include <thread>
#include <unistd.h>

namespace dynamix::node {
namespace {

using time_point = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

constexpr std::size_t log_lines_shown = 8;

actors::supervision_options rules_of(const cluster::cluster_file& file) {
  actors::supervision_options rules;
  rules.max_restarts = file.supervision.max_restarts;
  rules.period_seconds = file.supervision.period_ms / 1000.0;
  rules.seed = file.seed;
  return rules;
}

/// So little is free that neither a log's line nor a result can be relied on.
bool disk_is_full(const std::string& directory) {
  constexpr std::uint64_t bytes_min = 32768;
  struct statvfs disk {};
  if (::statvfs(directory.c_str(), &disk) != 0)
    return false;
  const std::uint64_t blocks = ::geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
  return blocks * disk.f_frsize < bytes_min;
}

child_options describe_process(const launch_options& options, const cluster::host& host, bool resumed) {
  const std::string threads = std::to_string(options.file.training.threads);
  child_options child{.program = options.program,
                      .arguments = {"run", "--cluster", options.run.cluster_file(), "--name", host.name,
                                    resumed ? "--resume" : "--out", options.run.path(), "--log-to-stderr"},
                      .environment = {{"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}},
                      .output = options.run.log(host.name)};
  for (const auto& [wanted, flag] : {std::pair(options.insecure, "--insecure"), std::pair(options.trace, "--trace"),
                                     std::pair(options.log_json, "--log-json")})
    if (wanted)
      child.arguments.emplace_back(flag);
  if (!options.keys.empty())
    child.arguments.insert(child.arguments.end(), {"--keys", options.keys});
  if (const auto more = options.more_arguments.find(host.name); more != options.more_arguments.end())
    child.arguments.insert(child.arguments.end(), more->second.begin(), more->second.end());
  if (const auto runner = options.command_prefix.find(host.name); runner != options.command_prefix.end()) {
    child.arguments.insert(child.arguments.begin(), runner->second.begin() + 1, runner->second.end());
    child.arguments.insert(child.arguments.begin() + static_cast<std::ptrdiff_t>(runner->second.size()) - 1,
                           child.program);
    child.program = runner->second.front();
  }
  if (const auto more = options.more_environment.find(host.name); more != options.more_environment.end())
    child.environment.insert(child.environment.end(), more->second.begin(), more->second.end());
  return child;
}

/// As all hosts read it: who joins is not in it.
cluster::cluster_file file_of_run(const launch_options& options) {
  auto file = options.file;
  std::erase_if(file.hosts, [&](const auto& host) { return options.later.contains(host.name); });
  return file;
}

/// The run between the first process's start and the last one's end:
///
///   training -> failing   a host has died before training began, or the last worker was given up; the others end
///   training -> stopping  a stop was asked for, and passed on
///   training -> finishing a worker has ended well: nobody is started again
///            -> ending    nobody trains any more, no guest either; the arbitrator has the last word
///   each of these, when its time is over -> terminated -> killed
class launched_run {
public:
  launched_run(const launch_options& options, live_output& output)
      : options_(options), output_(output), timeouts_(cluster::derive_timeouts(options.file.detect_ms)),
        rules_(rules_of(options.file)),
        processes_(options.file.hosts, rules_,
                   [this](const cluster::host& host, bool resumed) {
                     return options_.describe ? options_.describe(host, resumed)
                                              : describe_process(options_, host, resumed);
                   }),
        tail_(options.run.ledger()), run_(file_of_run(options)) {
    tail_.skip(); // an earlier life's rows are not this one's progress
  }

  std::string start() { return processes_.start_all(options_.resume, options_.later); }

  launch_outcome watch(const std::stop_token& stop) {
    while (look(stop))
      std::this_thread::sleep_for(options_.look_interval);
    outcome_.restarts = processes_.restarts();
    outcome_.stopped = outcome_.stopped && !has_completed(); // else it was asked too late
    outcome_.succeeded = outcome_.error.empty() && !outcome_.stopped;
    return std::move(outcome_);
  }

private:
  enum class phase { training, stopping, failing, finishing, ending, terminated, killed };

  double now_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  /// One look at everything. False once all processes have ended.
  bool look(const std::stop_token& stop) {
    const auto ends = processes_.reap(); // first, so that all that the ledger told before a death is known
    const auto rows = tail_.read();
    for (const auto& row : rows) {
      run_.add(row);
      notice_return(row);
    }
    begun_ = begun_ || run_.progress().begun() || (options_.observer != nullptr && options_.observer->begun());
    heed(stop); // before a host that died of the same signal counts as lost
    for (const auto& end : ends)
      ended(end);
    if (options_.observer != nullptr)
      options_.observer->look(processes_, rows, phase_ == phase::training && begun_);
    restart();
    if (!page_told_ && !options_.page.empty() && options_.page_answers()) {
      page_told_ = true;
      output_.print(options_.page);
    }
    const bool training = anybody_trains();
    if (!training && (phase_ == phase::training || phase_ == phase::finishing))
      enter(phase::ending, milliseconds(3 * timeouts_.shutdown_timeout_ms));
    if (phase_ != phase::training && std::chrono::steady_clock::now() > deadline_)
      press();
    if (!options_.quiet && training && phase_ <= phase::stopping)
      output_.progress(arbitrator_gone_ ? "training without the arbitrator: no progress is recorded"
                                        : ledger::progress_line(run_.progress()));
    return processes_.any_running(false) || processes_.restart_pending(false);
  }

  /// Who asks for the run's end.
  void heed(const std::stop_token& stop) {
    const milliseconds patience(11 * timeouts_.shutdown_timeout_ms);
    if (stop.stop_requested() && (phase_ == phase::training || phase_ == phase::finishing)) {
      outcome_.stopped = true;
      output_.print("stopping at the next window boundary; a second Ctrl-C ends at once");
      go_without_the_dead();
      end_all(phase::stopping, SIGINT, patience);
    } else if ((phase_ == phase::training || (phase_ == phase::finishing && for_clients())) &&
               options_.observer != nullptr && options_.observer->over()) {
      outcome_.over = true;
      output_.print(options_.observer->why_over() + "; training ends at the next window boundary");
      end_all(phase::stopping, SIGINT, patience);
    }
    if (options_.hurry.stop_requested() && phase_ < phase::terminated) {
      outcome_.stopped = true;
      output_.print("ending at once");
      end_all(phase::terminated, SIGTERM, milliseconds(timeouts_.shutdown_timeout_ms)); // the second signal
    }
  }

  void enter(phase next, milliseconds patience) {
    phase_ = next;
    deadline_ = std::chrono::steady_clock::now() + patience;
    if (next != phase::training)
      processes_.cancel_restarts();
  }

  void end_all(phase next, int number, milliseconds patience) {
    enter(next, patience);
    processes_.signal_all(number);
  }

  /// Somebody has not ended in time.
  void press() {
    const bool ask = phase_ != phase::terminated && phase_ != phase::killed;
    for (const auto& name : processes_.names())
      if (processes_.running(name)) {
        outcome_.warnings.push_back("host " + name + " did not end in time and was " + (ask ? "terminated" : "killed"));
        processes_.signal(name, ask ? SIGTERM : SIGKILL);
      }
    enter(ask ? phase::terminated : phase::killed, milliseconds(timeouts_.shutdown_timeout_ms));
  }

  /// Workers of the file, or others that have joined its open cluster, as long as there is an arbitrator to go on with.
  bool anybody_trains() {
    return processes_.any_running(true) || processes_.restart_pending(true) ||
           (phase_ == phase::training && begun_ && guests_train() && arbitrator_goes_on());
  }
  bool guests_train() const {
    return std::ranges::any_of(run_.workers(), [this](const auto& worker) {
      return options_.file.find(cluster::host_of(worker.name)) == nullptr &&
             worker.state == ledger::worker_state::training;
    });
  }
  /// It runs, or is started again.
  bool arbitrator_goes_on() const { return processes_.any_running(false) || processes_.restart_pending(false); }

  bool for_clients() const { return options_.file.training.trainer == cluster::trainer_kind::client; }
  bool is_worker(const std::string& host) const { return options_.file.find(host)->has(cluster::role::worker); }
  bool is_arbitrator(const std::string& host) const { return options_.file.find(host)->has(cluster::role::arbitrator); }

  void ended(const host_end& end) {
    const auto doubt = options_.observer != nullptr ? options_.observer->ended(end) : "";
    if (phase_ == phase::stopping && stopped_as_asked(end.exit)) {
      outcome_.given_up.insert(end.host);
      return;
    }
    const bool stopped_there =
        begun_ && !end.exit.by_signal && end.exit.number == exit_stopped && ended_well_by_its_word(end.host);
    if (!(ended_in_order(end.exit) || stopped_there) || !doubt.empty())
      return ended_badly(end.host, to_string(end.exit) + (doubt.empty() ? "" : "; " + doubt));
    if (phase_ == phase::training && !begun_ && has_left(end.host))
      return ended_badly(end.host, "it was asked to end");
    const bool in_order = phase_ == phase::training || phase_ == phase::finishing || phase_ == phase::ending;
    if (in_order && !outcome_.given_up.contains(end.host) && has_left(end.host))
      return leave(end.host);
    if (phase_ == phase::training && is_worker(end.host))
      finish();
  }

  /// Whether all that its workers have said last is so.
  template <class Predicate>
  bool all_said(const std::string& host, Predicate is_so) const {
    return std::ranges::all_of(options_.file.find(host)->members(), [&](const auto* worker) {
      const auto said = read_worker_file(options_.run.worker(worker->name));
      return said && is_so(said->farewell);
    });
  }
  /// By its workers' own word, or by its replica's in the ledger.
  bool has_left(const std::string& host) const {
    return options_.file.find(host)->takes_part() ? all_said(host, messages::tells_leave)
                                                  : replicas_left_.contains(host);
  }
  /// Somebody else's signal has ended training there, and so everywhere. Where nobody works, others tell of it.
  bool ended_well_by_its_word(const std::string& host) const {
    return !options_.file.find(host)->takes_part() || all_said(host, [](const auto& said) { return said.succeeded; });
  }

  bool has_completed() const {
    return std::ranges::all_of(options_.file.hosts,
                               [this](const auto& host) { return all_said(host.name, messages::tells_completion); });
  }

  /// As `systemctl stop` means it: whoever asked for it starts it again. A process may end some time after its leave.
  void leave(const std::string& host) {
    died_at_seconds_.erase(host);
    arbitrator_gone_ = arbitrator_gone_ || (is_arbitrator(host) && !any_arbitrator_running());
    output_.print(host + " has left: its process was asked to end (SIGTERM); the others " +
                  (phase_ == phase::training ? "go on, and it is not started again" : "have come to the end since"));
  }

  /// Workers end together: one that dies now, or is not back yet, has nobody to go on with.
  void finish() {
    // A training process may have much to do behind its last step, and others wait for none of it.
    enter(phase::finishing, for_clients()
                                ? milliseconds(std::chrono::hours(24 * 365))
                                : milliseconds(timeouts_.collective_timeout_ms + 3 * timeouts_.shutdown_timeout_ms));
    go_without_the_dead();
    for (const auto& host : outcome_.given_up)
      processes_.signal(host, SIGTERM);
  }

  /// Those who are not back yet.
  void go_without_the_dead() {
    for (const auto& [host, when] : died_at_seconds_)
      if (is_worker(host)) {
        outcome_.warnings.push_back(host + " had died, and was not back when training ended");
        outcome_.given_up.insert(host);
      }
  }

  void ended_badly(const std::string& host, const std::string& how) {
    if (phase_ == phase::training && begun_)
      return start_again(host, how);
    // The first death is the cause, and ending badly is what a terminated process does. Whatever becomes of the
    // arbitrator then, the workers have done their part.
    if (!outcome_.error.empty() || outcome_.given_up.contains(host) || phase_ == phase::terminated ||
        phase_ == phase::killed || (!is_worker(host) && phase_ != phase::training))
      return;
    blame(host, how);
    if (phase_ != phase::training)
      return;
    output_.problem("error: host \"" + host + "\" died (" + how + "); ending the others");
    // Peers would wait for ever for a worker that never comes.
    end_all(phase::failing, SIGINT, milliseconds(timeouts_.collective_timeout_ms + timeouts_.shutdown_timeout_ms));
  }

  /// The death that ended the run.
  void blame(const std::string& host, const std::string& how) {
    outcome_.error =
        "host \"" + host + "\" died (" + how + ")" +
        (run_.progress().training() ? fmt::format(" {} into training, in or after window {}",
                                                  duration(run_.progress().elapsed_seconds()), run_.progress().window())
         : begun_                   ? " in training"
                                    : " before training began") +
        (disk_is_full(options_.run.path()) ? "; no space is left on the disk of " + options_.run.path() : "");
    outcome_.last_words =
        "The end of " + options_.run.log(host) + ":\n" + last_lines(options_.run.log(host), log_lines_shown);
  }

  void start_again(const std::string& host, const std::string& how) {
    if (disk_is_full(options_.run.path())) { // it would only end so again, and its log could not say why
      blame(host, how);
      return end_all(phase::failing, SIGINT, milliseconds(3 * timeouts_.shutdown_timeout_ms));
    }
    const auto plan = processes_.failed(host, now_seconds(), how);
    const std::string died = host + " died (" + how + ")";
    arbitrator_gone_ = arbitrator_gone_ || (is_arbitrator(host) && !any_arbitrator_running());
    if (plan.escalate)
      return give_up(host, died + " too often", how);
    died_at_seconds_.try_emplace(host, now_seconds());
    output_.problem(fmt::format("warning: {}; restarting ({} of {} within {} s){}", died, plan.failures,
                                rules_.max_restarts, fixed(rules_.period_seconds, 0),
                                arbitrator_gone_ && !is_worker(host) ? "; training goes on without decisions" : ""));
  }

  void give_up(const std::string& host, const std::string& died, const std::string& how) {
    died_at_seconds_.erase(host);
    outcome_.given_up.insert(host);
    const bool rest = anybody_trains();
    const std::string text =
        died + " and is given up; " +
        (arbitrator_gone_ && !is_worker(host) ? "training goes on without decisions" : "the run goes on without it");
    outcome_.warnings.push_back(text);
    output_.problem("warning: " + text);
    if (rest)
      return;
    blame(host, how);
    end_all(phase::failing, SIGINT, milliseconds(3 * timeouts_.shutdown_timeout_ms));
  }

  bool any_arbitrator_running() {
    return std::ranges::any_of(options_.file.arbitrators(),
                               [this](const auto* host) { return processes_.running(host->name); });
  }

  void restart() {
    for (const auto& one : processes_.start_due(now_seconds()))
      if (one.plan.escalate)
        give_up(one.host, one.host + " could not be started, too many times (" + one.cause + ")", one.cause);
      else
        output_.problem("warning: " + one.plan.reason);
  }

  /// A host that died is back when the ledger says so; an arbitrator when it begins to write again.
  void notice_return(const ledger::row& row) {
    if (std::holds_alternative<ledger::start>(row.entry)) {
      arbitrator_gone_ = false;
      if (options_.file.arbitrators().size() == 1) // of several each tells that it votes again
        back(options_.file.arbitrator_host().name);
    } else if (const auto* event = std::get_if<ledger::event>(&row.entry);
               event != nullptr && event->event == ledger::event_kind::leader) {
      arbitrator_gone_ = false;
      back(event->host);
    } else if (event != nullptr && event->event == ledger::event_kind::left) {
      replicas_left_.insert(event->host);
    } else if (event != nullptr &&
               (event->event == ledger::event_kind::joined || event->event == ledger::event_kind::rejoined ||
                event->event == ledger::event_kind::follows)) {
      back(cluster::host_of(event->host));
    }
  }

  void back(const std::string& host) {
    const auto died = died_at_seconds_.find(host);
    if (died == died_at_seconds_.end() || !processes_.running(host))
      return;
    output_.print(host + " is back after " + fixed(now_seconds() - died->second, 1) + " s");
    died_at_seconds_.erase(died);
  }

  const launch_options& options_;
  live_output& output_;
  const time_point begin_ = std::chrono::steady_clock::now();
  cluster::timeouts timeouts_;
  const actors::supervision_options rules_;
  host_processes processes_;
  ledger::tail tail_;
  ledger::run run_;
  phase phase_ = phase::training;
  time_point deadline_;
  bool page_told_ = false;
  bool begun_ = false; ///< training has
  bool arbitrator_gone_ = false;
  std::map<std::string, double> died_at_seconds_; ///< of hosts that are to come back
  std::set<std::string> replicas_left_;           ///< hosts
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

bool stopped_as_asked(const child_exit& exit) {
  return exit.number == (exit.by_signal ? SIGINT : exit_stopped);
}

bool ended_in_order(const child_exit& exit) {
  return exit.well() || (!exit.by_signal && exit.number == exit_unfinished);
}

launch_outcome launch(const launch_options& options, live_output& output, std::stop_token stop) {
  launched_run run(options, output);
  if (auto problem = run.start(); !problem.empty())
    return {.error = problem}; // the processes that did start end with `run`
  return run.watch(stop);
}

} // namespace dynamix::node
