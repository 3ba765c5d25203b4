#pragma once

/// The cluster files that a command line names, with the changes that it makes of them.

#include "cluster/field_changes.hpp"
#include "simulator/scenario.hpp"

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace dynamix::node {

struct compare_arguments;
struct remote_options;

/// Adds --set SECTION.FIELD=VALUE, which may be given again.
void add_set(CLI::App& command, std::vector<std::string>& set);
/// Adds the options that say how policies are compared, not which: --jobs, --set, --insecure, --quiet.
void add_comparison_options(CLI::App& command, compare_arguments& arguments);
/// Adds the options that say how other machines are reached: --ssh, --program.
void add_reach(CLI::App& command, remote_options& remote);
/// An option that stands for a field; empty: not given.
struct field_option {
  const char* option;
  const char* field;
  const std::string& value;
};
/// What the command line changes: --set first, then the options that stand for fields.
std::vector<cluster::field_change> changes_of(const std::vector<std::string>& set,
                                              std::initializer_list<field_option> options = {});
/// The changes that every command which trains takes.
struct run_changes {
  std::string policy;
  std::string seed;
  std::string epochs;
  std::vector<std::string> set;
};
void add_run_changes(CLI::App& command, run_changes& changes);
std::vector<cluster::field_change> changes_of(const run_changes& changes);

/// Makes the changes, with the policy's file dropped where it belongs to another policy than the one that was asked
/// for. False after the errors have been written to `err`; then `file` is as it was.
bool change_cluster_file(cluster::cluster_file& file, const std::vector<cluster::field_change>& changes,
                         std::ostream& err);

/// The file at `path` with the changes, or nothing after its errors have been written to `err`.
std::optional<cluster::cluster_file> load_cluster_file(const std::string& path, std::ostream& err,
                                                       const std::vector<cluster::field_change>& changes = {});

/// The same of `--workers N`: N agents on this machine.
std::optional<cluster::cluster_file> load_client_cluster(std::uint32_t workers, std::ostream& err,
                                                         const std::vector<cluster::field_change>& changes);

/// Loads cluster files; a directory stands for its *.toml files, in the order of their names. `changes`
/// are made to each. Returns exit_done, or exit_refused after every error has been written to
/// `err`.
int load_cluster_files(const std::vector<std::string>& paths, const std::vector<cluster::field_change>& changes,
                       std::vector<cluster::cluster_file>& files, std::ostream& err);

/// The same with what the files name for the simulator.
int load_scenarios(const std::vector<std::string>& paths, const std::vector<cluster::field_change>& changes,
                   std::vector<simulator::scenario>& scenarios, std::ostream& err);

} // namespace dynamix::node
