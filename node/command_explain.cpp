#include "node/command.hpp"
#include "node/explanation.hpp"
#include "node/run_directory.hpp"

#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

struct explain_arguments {
  std::string run;
  std::uint64_t window = 0;
  std::string worker;
  bool json = false;
};

int explain_window(const explain_arguments& arguments, command_context& context) {
  std::string error;
  const auto rows = actors::read_ledger(run_directory(arguments.run).ledger(), error);
  if (!error.empty())
    return refuse(context.err, "--run: " + error);
  const auto explanation = explain(rows, arguments.window, arguments.worker, error);
  if (!error.empty())
    return refuse(context.err, error);
  context.out << (arguments.json ? to_json(explanation) : to_text(explanation));
  return exit_done;
}

} // namespace

void add_explain(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<explain_arguments>();
  auto* command = app.add_subcommand("explain", "Say why a window ended with these batch sizes, and what came of it");
  command->add_option("--run", arguments->run, "Run directory")->required();
  command->add_option("--window", arguments->window, "Window, from 1")->required()->check(CLI::PositiveNumber);
  command->add_option("--worker", arguments->worker, "Only this worker");
  command->add_flag("--json", arguments->json, "Print JSON, an object for each worker");
  command->callback(
      [arguments, &context] { context.work = [arguments, &context] { return explain_window(*arguments, context); }; });
}

} // namespace dynamix::node
