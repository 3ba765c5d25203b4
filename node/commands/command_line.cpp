#include "node/commands/command_line.hpp"

#include "node/commands/command.hpp"
#include "node/reports/text.hpp"

#include <algorithm>
#include <ostream>

namespace dynamix::node {
namespace {

/// CLI11 says of a mistyped command only that one is required.
std::string find_unknown_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with("-"))
    return "";
  const auto name = [](const CLI::App* command) { return command->get_name(); };
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (std::ranges::find(commands, arguments.front(), name) != commands.end())
    return "";
  return "\"" + arguments.front() + "\" is no command; the commands are " + listed(commands, name);
}

std::string as_shell_line(const std::vector<std::string>& arguments) {
  std::string line = "dynamix-node";
  for (const auto& argument : arguments)
    line += " " + shell_quoted(argument);
  return line;
}

} // namespace

int run_command_line(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  CLI::App app("Trains a model with synchronous data-parallel SGD and adapts each worker's batch size while it trains.",
               "dynamix-node");
  // The trainer is not loaded for it: the program starts without.
  const std::string torch = DYNAMIX_TORCH_VERSION;
  app.set_version_flag("--version",
                       "dynamix-node " DYNAMIX_VERSION + (torch.empty() ? torch : ", its trainer for PyTorch " + torch));
  app.require_subcommand(1);
  command_context context{out, err, as_shell_line(arguments), {}};
  add_run(app, context);
  add_local(app, context);
  add_launch(app, context);
  add_exec(app, context);
  add_init(app, context);
  add_check(app, context);
  add_explain(app, context);
  add_dashboard(app, context);
  add_report(app, context);
  add_doctor(app, context);
  add_profile(app, context);
  add_simulate(app, context);
  add_generate_scenarios(app, context);
  add_compare(app, context);
  add_experiment(app, context);
  add_train_policy(app, context);
  add_faults(app, context);
  add_swarm(app, context);
  add_top(app, context);
  add_trace(app, context);
  add_completion(app, context);
  add_ledger(app, context);
  add_prune(app, context);
  add_keys(app, context);
  app.footer("Exit codes: 0 done; 1 the run failed or was stopped; 2 wrong arguments or cluster file.");
  if (const auto problem = find_unknown_command(app, arguments); !problem.empty())
    return refuse(err, problem);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend()); // as CLI11 takes them
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0)
      return refuse(err, std::string(error.what()) + "; see dynamix-node --help");
    return app.exit(error, out, err); // --help, --version
  }
  try {
    return context.work();
  } catch (const std::exception& error) { // a full disk, no memory: nothing that a command could answer better
    err << "dynamix-node: error: " << error.what() << "\n";
    return exit_failed;
  }
}

int refuse(std::ostream& err, const std::string& message) {
  err << "dynamix-node: error: " << message << "\n";
  return exit_refused;
}

int refuse_at(std::ostream& err, const cluster::file_error& error) {
  err << cluster::to_string(error) << "\n";
  return exit_refused;
}

} // namespace dynamix::node
