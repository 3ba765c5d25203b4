#pragma once

/// What the commands share: each adds itself to the command line and leaves its work in `context::work`.

#include "cluster/cluster_file.hpp"
#include "node/commands/command_line.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace dynamix::node {

struct command_context {
  std::ostream& out;
  std::ostream& err;
  std::string command;       ///< line that was given, as a shell reads it
  std::function<int()> work; ///< of the chosen command
};

void add_run(CLI::App& app, command_context& context);
void add_launch(CLI::App& app, command_context& context);
void add_local(CLI::App& app, command_context& context);
void add_exec(CLI::App& app, command_context& context);
void add_init(CLI::App& app, command_context& context);
void add_check(CLI::App& app, command_context& context);
void add_explain(CLI::App& app, command_context& context);
void add_dashboard(CLI::App& app, command_context& context);
void add_report(CLI::App& app, command_context& context);
void add_doctor(CLI::App& app, command_context& context);
void add_profile(CLI::App& app, command_context& context);
void add_simulate(CLI::App& app, command_context& context);
void add_generate_scenarios(CLI::App& app, command_context& context);
void add_compare(CLI::App& app, command_context& context);
void add_experiment(CLI::App& app, command_context& context);
void add_train_policy(CLI::App& app, command_context& context);
void add_faults(CLI::App& app, command_context& context);
void add_swarm(CLI::App& app, command_context& context);
void add_top(CLI::App& app, command_context& context);
void add_arbitrators(CLI::App& app, command_context& context);
void add_trace(CLI::App& app, command_context& context);
void add_completion(CLI::App& app, command_context& context);
void add_ledger(CLI::App& app, command_context& context);
void add_prune(CLI::App& app, command_context& context);
void add_keys(CLI::App& app, command_context& context);

/// What `command` does with its arguments.
template <class Arguments>
void add_work(CLI::App& command, command_context& context, std::shared_ptr<Arguments> arguments,
              std::type_identity_t<int (*)(const Arguments&, command_context&)> work) {
  command.callback([&context, arguments = std::move(arguments), work] {
    context.work = [&context, arguments, work] { return work(*arguments, context); };
  });
}

/// A check of options that take a whole number of 64 bits: the parser takes "-1" and what is too large for others.
std::string refuse_number(const std::string& text);

/// Writes "dynamix-node: error: MESSAGE" and returns exit_refused.
int refuse(std::ostream& err, const std::string& message);
/// The same, but returns exit_failed.
int fail(std::ostream& err, const std::string& message);
/// As `refuse`, of a message that begins with a place in a file.
int refuse_at(std::ostream& err, const cluster::file_error& error);

} // namespace dynamix::node
