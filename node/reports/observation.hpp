#pragma once

/// What `exec --observe` has seen of a script that has not joined: who is slow and why, what equal batches cost, and
/// what joining would gain. Pure.

#include "policy/balance.hpp"
#include "policy/step_time_table.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

/// In a part of the run, means of a step; zeros where none was looked at.
struct observed_part {
  double step_seconds = 0;
  double compute_seconds = 0;
};

/// One training process, as python/dynamix/observation.py tells it at its end. Seconds: means of a step.
struct observed_worker {
  std::string name;
  std::uint64_t steps = 0;
  std::uint32_t batch = 0; ///< samples of most steps
  double step_seconds = 0;
  double compute_seconds = 0;
  double exchange_seconds = 0;  ///< waiting for the others
  double data_seconds = 0;      ///< waiting for the data loader
  double observing_seconds = 0; ///< of all steps
  std::uint64_t other_models = 0;
  std::vector<policy::step_time> points; ///< computing by batch size, rising in it
  std::vector<observed_part> parts;      ///< equally long ones, the same of all processes
  std::vector<std::string> lines;        ///< by which the script joins
  std::string problem;                   ///< why its agent was told no more; empty: it was
  std::optional<double> cpu_wait_share; ///< of its computing, by its agent, when no CPU was free; nothing: not measured
};

struct observation {
  std::vector<observed_worker> workers; ///< by rank
  double samples_per_second = 0;        ///< as it is
  double gain = 1;                      ///< times as many, estimated, at the same global batch
  std::optional<double> gain_error;     ///< its standard error, by how much the run's parts differ; nothing: not known
  std::vector<std::uint32_t> batches;   ///< with which
};

/// Of the text of a process's file, which anybody may have written. Nothing where it is none; `name`: its worker's.
std::optional<observed_worker> parse_observed_worker(const std::string& text, const std::string& name);

/// Estimates by the shares that workers of a joined script come to (policy/balance), from step times along the
/// policies' curve (policy/step_time_table); of a worker that has had one batch size, all of a step is taken to grow
/// with it. The slowest one's computing gets shorter by the ratio of the curves before and after; the time of a step in
/// which nobody computes stays as long. The same shares are judged in each part of the run, where each worker is as
/// many times slower than along its curve as it was there.
observation observe(std::vector<observed_worker> workers);

/// Sentences, one an element: for a terminal, and as the page's warnings.
std::vector<std::string> to_sentences(const observation& seen);
/// The workers' times as a table.
std::string observed_table(const observation& seen);

/// What is kept of an observation, to be compared with what the script does once it has joined.
struct kept_estimate {
  std::vector<std::string> command;
  std::uint64_t workers = 0;
  double samples_per_second = 0;
  double gain = 1;
};
std::string to_json(const kept_estimate& kept);
std::optional<kept_estimate> parse_kept_estimate(const std::string& text);
/// "observed before, at equal batches: 640 samples/s; .."
std::string compare(const kept_estimate& kept, double samples_per_second);

} // namespace dynamix::node
