#pragma once

#include "ledger/file.hpp"
#include "policy/parameter_archive.hpp"
#include "simulator/simulation.hpp"

#include <map>
#include <string>

namespace dynamix::node {

/// Writes the ledger of a simulated run as the arbitrator and the workers would have: `report` and `explain` read it
/// like any other. Times are virtual.
class simulated_ledger {
public:
  /// Writes the first rows.
  simulated_ledger(ledger::writer& to, const cluster::cluster_file& file, double epoch_samples,
                   const std::vector<std::uint8_t>& parameters, policy::parameter_archive* archive);
  /// After every window.
  void add(const simulator::simulation& run);
  void add(const messages::policy_version& version, double seconds);
  /// The workers' farewells.
  void finish(const simulator::simulation& run, const std::string& reason);

private:
  struct decisions_of_host {
    std::uint64_t received = 0;
    std::uint64_t applied = 0;
    messages::decision_key in_force;
  };

  ledger::writer& to_;
  const cluster::cluster_file& file_;
  policy::parameter_archive* archive_;
  std::map<std::string, decisions_of_host> decisions_;
  std::size_t evaluations_ = 0; ///< written
};

} // namespace dynamix::node
