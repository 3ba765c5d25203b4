#pragma once

/// A local run that is broken by a fault plan while it goes on.

#include "faults/injector.hpp"
#include "faults/verdict.hpp"
#include "node/experiments/fault_scripts.hpp"
#include "node/launch/launcher.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

/// Stands between every two hosts of which one may dial the other. `problem` says what is wrong where it could not.
std::vector<faults::proxied_link> proxy_links(const cluster::cluster_file& file, faults::proxy& through,
                                              launch_options& options, std::string& problem);

/// Sees the run from within the launcher; all seconds count from training's beginning.
class fault_run final : public launch_observer, private faults::victims {
public:
  /// Keeps the references. `file`: with the hosts that join.
  fault_run(const faults::fault_plan& plan, const cluster::cluster_file& file, const run_directory& run,
            faults::proxy& through, std::vector<faults::proxied_link> links, live_output& output);

  void look(host_processes& hosts, const std::vector<ledger::row>& rows, bool training) override;
  std::string ended(const host_end& end) override;
  bool over() const override;
  std::string why_over() const override;

  void use(faults::namespaces& apart) { injector_.use(apart); }

  /// Once the run is over.
  std::vector<faults::fault_record> records();
  /// What is wrong with the scripts. Waits for their end, unless `hurry` is requested.
  std::vector<std::string> complaints(const std::stop_token& hurry) { return scripts_.finish(script_patience, hurry); }
  const std::vector<ledger::row>& rows() const { return rows_; }
  std::vector<faults::process_growth> growth() const;
  bool plan_done() const { return schedule_.done(); }
  /// From training's beginning.
  double end_seconds() const { return moment_.seconds; }

private:
  static constexpr std::chrono::seconds script_patience{60};
  static constexpr std::chrono::minutes end_patience{10}; ///< from the first host's end in order to the last script's

  struct measured_process {
    pid_t id = 0;
    std::chrono::steady_clock::time_point seen;
    bool warm = false; ///< the first measures are taken
    faults::process_growth growth;
    double first_memory_mib = 0;
    std::int64_t first_descriptors = 0;
  };

  // Of a host, or of a worker's script.
  pid_t id(const std::string& name) override { return cluster::is_slot(name) ? scripts_.id(name) : hosts_->id(name); }
  void signal(const std::string& name, int number) override;
  void start(const std::string& host) override { hosts_->start_again(host); }
  void hold_down(const std::string& name, bool held) override;

  /// Whoever waits for a script that cannot live waits for ever, as does who waits for one that does not end.
  bool never_begins() const { return !began_ && scripts_.cannot_live(); }
  bool never_ends() const;
  void add(const ledger::row& row, double now_seconds);
  void begin(const faults::planned_fault& fault, double now_seconds);
  void end(const faults::planned_fault& fault, double now_seconds);
  void end_all(double now_seconds);
  void measure_processes(bool fault_begins);

  faults::schedule schedule_;
  faults::injector injector_;
  fault_scripts scripts_;
  faults::recovery_tracker recovery_;
  live_output& output_;
  const cluster::cluster_file& file_;
  host_processes* hosts_ = nullptr;                               ///< of the newest look
  std::optional<std::chrono::steady_clock::time_point> began_;    ///< training
  std::optional<std::chrono::steady_clock::time_point> over_;     ///< the same
  std::optional<std::chrono::steady_clock::time_point> measured_; ///< last
  faults::moment moment_;
  std::vector<faults::planned_fault> active_;
  std::vector<ledger::row> rows_;
  std::map<std::string, measured_process> processes_;     ///< that run now, by host
  std::map<std::string, faults::process_growth> longest_; ///< of each host, through the most faults
};

} // namespace dynamix::node
