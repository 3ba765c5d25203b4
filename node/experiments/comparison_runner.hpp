#pragma once

/// Makes the runs of a comparison, in virtual time or on this machine, each in a directory of its own. What is finished
/// is kept, so that a comparison that was interrupted goes on where it was.

#include "node/experiments/comparison_plan.hpp"
#include "node/launch/live_output.hpp"
#include "simulator/scenario.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace dynamix::node {

struct comparison_options {
  bool simulated = false;
  std::uint32_t jobs = 1; ///< threads, of a simulated one
  bool insecure = false;  ///< of a live one, as in launch_options
  bool quiet = false;
  std::vector<simulator::scenario> scenarios; ///< of the clusters compared, of a simulated one
};

class comparison_runner {
public:
  comparison_runner(comparison_options options, live_output& live, std::stop_token stop)
      : options_(std::move(options)), live_(live), stop_(std::move(stop)) {}

  /// Makes whatever of `plans` is not there. Returns an empty string; or why a directory cannot be used, before
  /// anything was begun. Throws std::runtime_error when something cannot be written.
  std::string run(const std::vector<planned_run>& plans);

  /// Asked to end early: outcomes are missing.
  bool stopped() const { return stop_.stop_requested(); }
  /// Runs that failed and are to be repeated: a live run may do better the next time, a simulated one would not.
  std::size_t failed() const { return failed_; }
  /// Null for a run that a stop has left out.
  const run_outcome* find(const planned_run& plan) const;
  std::size_t finished() const { return outcomes_.size() - failed_; }

private:
  std::string survey(const std::vector<planned_run>& plans, std::vector<const planned_run*>& missing);
  void run_simulated(const std::vector<const planned_run*>& missing);
  void run_live(const std::vector<const planned_run*>& missing);
  run_outcome simulate_one(const planned_run& plan, const std::function<void(std::uint64_t)>& progress, bool& ended);
  /// One run of `file` in the plan's directory, which is empty. Nothing where it was stopped.
  std::optional<run_outcome> train_one(const planned_run& plan, const cluster::cluster_file& file, bool& succeeded);
  std::optional<run_outcome> train_episodes(const planned_run& plan, bool& succeeded);

  comparison_options options_;
  live_output& live_;
  std::stop_token stop_;
  std::map<std::string, run_outcome> outcomes_; ///< by directory
  std::size_t failed_ = 0;
};

} // namespace dynamix::node
