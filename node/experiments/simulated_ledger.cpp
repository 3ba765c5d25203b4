#include "node/experiments/simulated_ledger.hpp"

#include "actors/arbitrator/deciding_rows.hpp"
#include "ledger/file.hpp"

namespace dynamix::node {

simulated_ledger::simulated_ledger(ledger::writer& to, const cluster::cluster_file& file, double epoch_samples,
                                   const std::vector<std::uint8_t>& parameters, policy::parameter_archive* archive)
    : to_(to), file_(file), archive_(archive) {
  auto start = actors::describe_file(file); // without a time: it is virtual
  start.dataset_samples = static_cast<std::uint64_t>(epoch_samples);
  to_.append({.at_seconds = 0, .entry = start});
  auto as_written = file; // into the run directory
  cluster::make_paths_absolute(as_written);
  std::string unkept; // then `explain --replay` says so
  to_.append({.at_seconds = 0, .entry = actors::describe_deciding(as_written, parameters, archive_, unkept)});
  to_.append(
      {.at_seconds = 0,
       .entry = ledger::event{ledger::event_kind::simulated, "", "hosts, network and learning are models of them"}});
}

void simulated_ledger::add(const simulator::simulation& run) {
  const auto& window = run.window();
  const double now = run.world().now_seconds();
  to_.append({.at_seconds = now, .entry = window});
  for (const auto& worker : window.workers) {
    auto& counted = decisions_[worker.report.host];
    if (worker.report.decision != counted.in_force && worker.report.decision != messages::decision_key{})
      ++counted.applied;
    counted.in_force = worker.report.decision;
    counted.received += window.decided ? 1 : 0;
  }
  for (; evaluations_ < run.evaluations().size(); ++evaluations_) {
    auto report = run.evaluations()[evaluations_];
    if (run.world().what().workload.evaluation_samples == 0)
      report.test_accuracy = run.world().accuracy(); // as `compare` counts it: without an evaluation's noise
    to_.append({.at_seconds = now, .entry = ledger::evaluation{report}});
  }
}

void simulated_ledger::add(const messages::policy_version& version, double seconds) {
  std::string unkept;
  to_.append({.at_seconds = seconds, .entry = actors::describe_policy(version, archive_, unkept)});
}

void simulated_ledger::finish(const simulator::simulation& run, const std::string& reason) {
  const auto result = run.result();
  for (std::uint32_t rank = 0; const auto* host : file_.workers()) {
    const auto& counted = decisions_[host->name];
    messages::farewell farewell{.host = host->name,
                                .rank = rank++,
                                .succeeded = result.failure.empty() && run.done(),
                                .reason = reason,
                                .steps = result.steps,
                                .samples = result.samples,
                                .epochs = static_cast<std::uint64_t>(run.world().epochs()),
                                .wall_seconds = result.seconds,
                                .final_accuracy = result.final_accuracy,
                                .seconds_to_target = result.seconds_to_target};
    farewell.decisions = {
        .received = counted.received, .applied = counted.applied, .unapplied = counted.received - counted.applied};
    to_.append({.at_seconds = result.seconds, .entry = ledger::farewell{farewell}});
  }
}

} // namespace dynamix::node
