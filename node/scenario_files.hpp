#pragma once

/// The scenarios that a command line names.

#include "cluster/field_changes.hpp"
#include "simulator/scenario.hpp"

#include <iosfwd>
#include <string>
#include <vector>

namespace dynamix::node {

/// Loads cluster files; a directory stands for its *.toml files, in the order of their names. `changes`
/// are made to each. Returns exit_done, or exit_refused after every error has been written to
/// `err`.
int load_cluster_files(const std::vector<std::string>& paths, const std::vector<cluster::field_change>& changes,
                       std::vector<cluster::cluster_file>& files, std::ostream& err);

/// The same with what the files name for the simulator.
int load_scenarios(const std::vector<std::string>& paths, const std::vector<cluster::field_change>& changes,
                   std::vector<simulator::scenario>& scenarios, std::ostream& err);

} // namespace dynamix::node
