#include "node/command.hpp"
#include "node/report.hpp"

#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

int report(const std::string& path, bool json, command_context& context) {
  std::string error;
  const auto records = read_run(run_directory(path), error);
  if (!error.empty())
    return refuse(context.err, error);
  const auto summary = summarise(records);
  context.out << (json ? workers_json(summary) : report_text(records, summary));
  return exit_done;
}

} // namespace

void add_report(CLI::App& app, command_context& context) {
  struct report_arguments {
    std::string run;
    bool json = false;
  };
  auto arguments = std::make_shared<report_arguments>();
  auto* command = app.add_subcommand("report", "Print what came of a run, also of one that still goes on");
  command->add_option("--run", arguments->run, "Run directory")->required();
  command->add_flag("--json", arguments->json, "Print the workers' table as JSON");
  command->callback([arguments, &context] {
    context.work = [arguments, &context] { return report(arguments->run, arguments->json, context); };
  });
}

} // namespace dynamix::node
