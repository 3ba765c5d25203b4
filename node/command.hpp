#pragma once

/// What the commands share: each adds itself to the command line and leaves its work in `context::work`.

#include "cluster/cluster_file.hpp"
#include "cluster/field_changes.hpp"
#include "node/command_line.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

struct command_context {
  std::ostream& out;
  std::ostream& err;
  std::string command;       ///< line that was given, as a shell reads it
  std::function<int()> work; ///< of the chosen command
};

void add_run(CLI::App& app, command_context& context);
void add_local(CLI::App& app, command_context& context);
void add_check(CLI::App& app, command_context& context);
void add_explain(CLI::App& app, command_context& context);
void add_dashboard(CLI::App& app, command_context& context);
void add_report(CLI::App& app, command_context& context);
void add_doctor(CLI::App& app, command_context& context);
void add_profile(CLI::App& app, command_context& context);
void add_simulate(CLI::App& app, command_context& context);
void add_compare(CLI::App& app, command_context& context);
void add_train_policy(CLI::App& app, command_context& context);
void add_faults(CLI::App& app, command_context& context);
void add_swarm(CLI::App& app, command_context& context);
void add_top(CLI::App& app, command_context& context);
void add_trace(CLI::App& app, command_context& context);

/// Adds --set SECTION.FIELD=VALUE, which may be given again.
void add_set(CLI::App& command, std::vector<std::string>& set);
/// An option that stands for a field; empty: not given.
struct field_option {
  const char* option;
  const char* field;
  const std::string& value;
};
/// What the command line changes: --set first, then the options that stand for fields.
std::vector<cluster::field_change> changes_of(const std::vector<std::string>& set,
                                              std::initializer_list<field_option> options = {});
/// Makes the changes, with the policy's file dropped where it belongs to another policy than the one that was asked
/// for. False after the errors have been written to `err`; then `file` is as it was.
bool change_cluster_file(cluster::cluster_file& file, const std::vector<cluster::field_change>& changes,
                         std::ostream& err);

/// The file at `path` with the changes, or nothing after its errors have been written to `err`.
std::optional<cluster::cluster_file> load_cluster_file(const std::string& path, std::ostream& err,
                                                       const std::vector<cluster::field_change>& changes = {});

/// Writes "dynamix-node: error: MESSAGE" and returns exit_refused.
int refuse(std::ostream& err, const std::string& message);
/// The same for a message that begins with a place in a file.
int refuse_at(std::ostream& err, const cluster::file_error& error);

} // namespace dynamix::node
