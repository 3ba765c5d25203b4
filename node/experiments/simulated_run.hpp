#pragma once

/// One run in virtual time, from a policy's parameters to what is kept of it: what `simulate` and `compare` share.

#include "ledger/file.hpp"
#include "node/experiments/run_outcome.hpp"
#include "node/reports/run_records.hpp"
#include "policy/parameter_archive.hpp"
#include "simulator/scenario.hpp"
#include "simulator/simulation.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace dynamix::node {

/// For a person: how a simulated cluster's decisions differ from its own; empty: they do not.
std::string note_of_decisions(const cluster::cluster_file& file);

/// The bytes that arbitrator.policy_file names, none where it is empty; or why they cannot be used, at its place.
std::optional<cluster::file_error> load_parameters(const cluster::cluster_file& file,
                                                   std::vector<std::uint8_t>& parameters);

struct simulation_options {
  simulator::scenario scenario; ///< its file names policy, mode and seed
  std::vector<std::uint8_t> parameters;
  ledger::writer* ledger = nullptr;             ///< gets the rows that a live run's would have
  policy::parameter_archive* archive = nullptr; ///< with `ledger`: gets the parameters that decide
  std::function<void(const simulator::simulation&)> after_window = [](const auto&) {};
  std::stop_token stop; ///< looked at after every window
};

struct simulated_run {
  run_outcome outcome; ///< without its fingerprint
  run_summary summary;
  bool stopped = false;
  std::vector<std::uint8_t> learned; ///< what a policy that learns can go on from; else empty
};
/// Runs to the end. In mode `train` the policy learns as it does live: a version holds from the next window on.
simulated_run simulate(const simulation_options& options);
/// So many runs one after the other, each in a world of its own; the policy goes on learning from run to run. The
/// outcome is the last one's, with the rewards of all. One episode is `simulate`.
simulated_run simulate_episodes(simulation_options options, std::uint32_t episodes);

} // namespace dynamix::node
