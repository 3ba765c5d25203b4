#pragma once

/// Rows of a ledger, as short as a test needs them.

#include "ledger/rows.hpp"
#include "tests/unit/parsed_cluster.hpp"

#include <string>
#include <vector>

namespace dynamix::ledger::testing {

inline cluster::cluster_file small_cluster(std::size_t workers = 2, const std::string& more = "") {
  std::string text = "[cluster]\nname = \"small\"\n[batch]\nlowest = 8\nhighest = 256\n" + more +
                     "[[host]]\nname = \"hub\"\nport = 7000\nroles = [\"arbitrator\"]\n";
  for (std::size_t i = 0; i < workers; ++i)
    text += "[[host]]\nname = \"w" + std::to_string(i) + "\"\nport = " + std::to_string(7001 + i) + "\n";
  return parsed_cluster(text, "small.toml");
}

inline ledger::row start_row() {
  return {.entry = ledger::start{.cluster = "small",
                                 .policy = "ppo",
                                 .mode = "train",
                                 .seed = 7,
                                 .window_steps = 10,
                                 .dataset_samples = 6000,
                                 .epochs = 3,
                                 .target_accuracy = 0.9,
                                 .started_at = "2026-01-02T03:04:05Z"}};
}

inline ledger::row event_row(event_kind event, const std::string& host, const std::string& text = "") {
  return {.entry = ledger::event{event, host, text}};
}

/// Window `number` of `workers` that all did 10 steps of 64 + rank samples in 0.1 s each.
inline ledger::row window_row(std::uint64_t number, std::size_t workers = 2) {
  ledger::window window{.key = {.term = 1, .window = number}, .generation = 1, .policy_version = 4};
  window.gather_seconds = 0.003;
  window.decide_seconds = 0.0004;
  for (std::size_t rank = 0; rank < workers; ++rank) {
    ledger::worker worker;
    auto& report = worker.report;
    report.host = "w" + std::to_string(rank);
    report.rank = static_cast<std::uint32_t>(rank);
    report.window = number;
    report.batch = static_cast<std::uint32_t>(64 + rank);
    report.global_batch = 129;
    report.epoch_samples = number * 1290;
    report.elapsed_seconds = static_cast<double>(number);
    report.telemetry_seconds = 0.001;
    report.network.retransmissions = 2;
    report.training = {.steps = 10,
                       .samples = report.batch * 10ULL,
                       .accuracy = 0.5 + 0.1 * static_cast<double>(rank),
                       .loss = 1.5,
                       .iteration_seconds = 0.1,
                       .compute_seconds = 0.06,
                       .exchange_seconds = 0.03,
                       .data_seconds = 0.005,
                       .learning_rate = 0.05};
    worker.reward.total = -0.25;
    worker.probabilities = {0.5F, 0.5F};
    worker.decided_batch = report.batch + 8;
    window.workers.push_back(worker);
  }
  return {.at_seconds = static_cast<double>(number) + 0.5, .entry = window};
}

} // namespace dynamix::ledger::testing
