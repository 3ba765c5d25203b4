#pragma once

/// A small run as its records: two workers, a decision per window.

#include "node/reports/run_records.hpp"
#include "tests/unit/parsed_cluster.hpp"

#include <gtest/gtest.h>

#include <string>

namespace dynamix::node::testing {

inline cluster::cluster_file pair_file(const std::string& more = "") {
  return parsed_cluster(R"([cluster]
name = "pair"
seed = 3
[[host]]
name = "ada"
port = 7401
roles = ["worker", "arbitrator"]
[[host]]
name = "ben"
port = 7402
compute_slowdown = 2.0
)" + more,
                        "pair.toml");
}

inline ledger::start start_row() {
  return {.cluster = "pair",
          .policy = "ppo",
          .mode = "train",
          .seed = 3,
          .window_steps = 10,
          .dataset_samples = 10'000,
          .epochs = 2,
          .workers = {"ada", "ben"},
          .state_fields = {"relative_throughput", "accuracy", "network_valid"},
          .actions = {-25, 0, 25},
          .scales = {},
          .started_at = "2026-01-02T03:04:05Z",
          .gradients = "encrypted"};
}

inline messages::window_report report(std::uint32_t rank, std::uint64_t window, std::uint32_t batch) {
  messages::window_report made;
  made.host = rank == 0 ? "ada" : "ben";
  made.rank = rank;
  made.generation = 1;
  made.window = window;
  made.batch = batch;
  made.elapsed_seconds = 2.0 * static_cast<double>(window);
  made.epoch_samples = 1000 * window;
  made.training.steps = 10;
  made.training.samples = 10ULL * batch;
  made.training.accuracy = rank == 0 ? 0.5 : 0.8;
  made.training.iteration_seconds = 0.2;
  made.training.compute_seconds = 0.1 * (rank + 1);
  return made;
}

inline ledger::worker worker(const messages::window_report& of, messages::decision_key in_force,
                             std::uint32_t decided) {
  ledger::worker row;
  row.report = of;
  row.report.decision = in_force;
  row.assigned_batch = of.batch;
  row.decided_batch = decided;
  row.reward = {.accuracy = 0.5, .gain = 0.1, .time = 0.2, .batch = 0.05, .noise = 0, .total = 0.35};
  row.state = {0.0F, 0.25F, 0.0F};
  row.probabilities = {0.25F, 0.5F, 0.25F};
  row.action = 2;
  row.value = 1.5F;
  row.reason = "the policy drew +25";
  return row;
}

/// Windows 1 to 3; what is decided on window w comes into force in window w + 2.
inline std::vector<ledger::row> sample_rows() {
  std::vector<ledger::row> rows = {{0, start_row()},
                                   {0.1, ledger::event{ledger::event_kind::joined, "ada", "waiting for ben"}}};
  for (std::uint64_t window = 1; window <= 3; ++window) {
    const messages::decision_key in_force = window < 3 ? messages::decision_key{} : messages::decision_key{1, 1};
    ledger::window row{.key = {1, window}, .generation = 1, .policy_version = window, .decided = window < 3};
    row.workers = {worker(report(0, window, window < 3 ? 64 : 89), in_force, 89),
                   worker(report(1, window, window < 3 ? 64 : 39), in_force, 39)};
    rows.push_back({2.0 * static_cast<double>(window), row});
  }
  return rows;
}

inline messages::farewell farewell(std::uint32_t rank) {
  return {.host = rank == 0 ? "ada" : "ben",
          .rank = rank,
          .succeeded = true,
          .reason = "epochs completed",
          .steps = 30,
          .samples = 3840,
          .epochs = 2,
          .wall_seconds = 6,
          .final_accuracy = 0.9,
          .parameter_checksum = 17,
          .control_seconds = 0.06,
          .telemetry_seconds = 0.012,
          .decisions = {.received = 2, .applied = 1, .late = 1, .superseded = 0, .unapplied = 1}};
}

/// A run that a test writes, and changes, before it is read.
struct written_run {
  cluster::cluster_file file;
  std::vector<ledger::row> rows;
  std::vector<messages::farewell> farewells;
  std::vector<messages::evaluation_report> evaluations;

  operator run_records() const { // NOLINT(google-explicit-constructor): as everyone who reads a run takes it
    run_records records(file);
    for (const auto& row : rows)
      records.add(row);
    records.farewells = farewells;
    records.evaluations = evaluations;
    return records;
  }
};

inline written_run sample_records() {
  return {.file = pair_file(), .rows = sample_rows(), .farewells = {farewell(0), farewell(1)}, .evaluations = {}};
}

} // namespace dynamix::node::testing
