#include "node/commands/command_line.hpp"

#include "node/commands/command.hpp"
#include "node/reports/text.hpp"
#include "settings/field.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/core.h>
#include <iterator>
#include <limits>
#include <memory>
#include <ostream>
#include <sstream>
#include <system_error>

namespace dynamix::node {
namespace {

/// CLI11's help, broken so that it fits a terminal of 100 columns.
class help_text : public CLI::Formatter {
public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    constexpr std::size_t columns = 100;
    std::istringstream lines(CLI::Formatter::make_help(app, std::move(name), mode));
    std::string text;
    for (std::string line; std::getline(lines, line); text += line + "\n") {
      const std::size_t indent = line.starts_with("  ") ? get_column_width() : 0;
      while (line.size() > columns) {
        const auto space = line.rfind(' ', columns);
        if (space == std::string::npos || space <= indent)
          break; // one long word
        text += line.substr(0, space) + "\n";
        line = std::string(indent, ' ') + line.substr(space + 1);
      }
    }
    return text;
  }
};

/// The command that the line is for; null: none.
const CLI::App* find_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const auto found = std::ranges::find_if(
      commands, [&](const auto* each) { return !arguments.empty() && each->get_name() == arguments.front(); });
  return found == commands.end() ? nullptr : *found;
}

/// CLI11 says of a mistyped command only that one is required.
std::string find_unknown_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with("-"))
    return "";
  const auto name = [](const CLI::App* command) { return command->get_name(); };
  if (find_command(app, arguments) != nullptr)
    return "";
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  std::vector<std::string> names;
  std::ranges::transform(commands, std::back_inserter(names), name);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto meant = settings::suggestion(arguments.front(), views);
  return "\"" + arguments.front() + "\" is not a command; " + meant + (meant.empty() ? "the" : "The") +
         " commands are " + listed(names);
}

/// The first option that its command does not have, and what was probably meant; CLI11 may name the word behind it
/// instead.
std::string find_unknown_option(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto* command = find_command(app, arguments);
  if (command == nullptr)
    return "";
  for (auto next = arguments.begin() + 1; next != arguments.end(); ++next) // as of `keys issue`
    if (const auto* below = find_command(*command, {*next}); below != nullptr)
      command = below;
    else
      break;
  std::vector<std::string> names;
  for (const auto* option : command->get_options())
    std::ranges::copy(option->get_lnames(), std::back_inserter(names));
  const std::vector<std::string_view> views(names.begin(), names.end());
  for (const auto& argument : arguments) {
    if (argument == "--") // behind it stands somebody else's command
      break;
    const auto given = argument.starts_with("--") ? argument.substr(2, argument.find('=') - 2) : "";
    if (given.empty() || std::ranges::find(names, given) != names.end())
      continue;
    auto meant = settings::suggestion(given, views);
    if (!meant.empty())
      meant = "; " + meant.insert(meant.find('"') + 1, "--").substr(0, meant.size() - 1);
    return "--" + given + " is not an option of " + command->get_name() + meant;
  }
  return "";
}

std::string as_shell_line(const std::vector<std::string>& arguments) {
  std::string line = "dynamix-node";
  for (const auto& argument : arguments)
    line += " " + shell_quoted(argument);
  return line;
}

} // namespace

int run_command_line(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  CLI::App app("Trains a model by synchronous data-parallel SGD, and adapts each worker's batch size meanwhile.",
               "dynamix-node");
  app.formatter(std::make_shared<help_text>());
  // The trainer is not loaded for it: the program starts without.
  const std::string torch = DYNAMIX_TORCH_VERSION;
  app.set_version_flag("--version", "dynamix-node " DYNAMIX_VERSION +
                                        (torch.empty() ? torch : ", its trainer for PyTorch " + torch));
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
  add_arbitrators(app, context);
  add_trace(app, context);
  add_completion(app, context);
  add_ledger(app, context);
  add_prune(app, context);
  add_keys(app, context);
  app.footer("Exit codes: 0 done; 1 the run failed or was stopped; 2 wrong arguments or cluster file; `run`: 3 "
             "ended early elsewhere, 130 stopped by a signal; `exec`: its command's. See docs/troubleshooting.md.");
  if (const auto problem = find_unknown_command(app, arguments); !problem.empty())
    return refuse(err, problem);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend()); // as CLI11 takes them
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      const auto unknown = find_unknown_option(app, arguments);
      return refuse(err, (unknown.empty() ? error.what() : unknown) + "; see dynamix-node " +
                             (find_command(app, arguments) != nullptr ? arguments.front() + " --help" : "--help"));
    }
    return app.exit(error, out, err); // --help, --version
  }
  try {
    return context.work();
  } catch (const std::exception& error) { // a full disk, no memory: nothing that a command could answer better
    return fail(err, error.what());
  }
}

int fail(std::ostream& err, const std::string& message) {
  err << "dynamix-node: error: " << message << "\n";
  return exit_failed;
}

std::string refuse_number(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size()
             ? ""
             : fmt::format("{} is not a whole number from 0 to {}", text, std::numeric_limits<std::uint64_t>::max());
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
