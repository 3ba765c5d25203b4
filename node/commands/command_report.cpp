#include "node/commands/command.hpp"
#include "node/reports/commit.hpp"
#include "node/reports/report.hpp"
#include "node/reports/results.hpp"
#include "storage/atomic_file.hpp"

#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

struct report_arguments {
  std::string run;
  std::string html; ///< empty: report.html in the run directory
  bool json = false;
};

int report(const report_arguments& arguments, command_context& context) {
  std::string error;
  const run_directory run(arguments.run);
  const auto records = read_run(run, error);
  if (!error.empty())
    return refuse(context.err, error);
  const auto summary = summarise_ended(records, read_end_told(run));
  if (arguments.json) {
    context.out << workers_json(summary);
    return exit_done;
  }
  context.out << report_text(records, summary);
  const auto page = report_page(records, summary, program_version());
  if (page.empty()) {
    context.out << "\nNo page: this program was built without it (-DDYNAMIX_DASHBOARD=OFF).\n";
    return exit_done;
  }
  const auto path = arguments.html.empty() ? run.page() : arguments.html;
  if (const auto problem = storage::write_output(path, page); !problem.empty())
    return fail(context.err, problem);
  context.out << "\nWith charts, each to be saved as PNG: " << path << "\n";
  return exit_done;
}

} // namespace

void add_report(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<report_arguments>();
  auto* command = app.add_subcommand(
      "report", "Print tables of a run, even one that still goes on, and write an HTML file with charts");
  command->add_option("--run", arguments->run, "Run directory")->required();
  command->add_option("--html", arguments->html, "Where the page goes (default: report.html in the run directory)");
  command->add_flag("--json", arguments->json, "Print the workers' table as JSON, and write no page");
  add_work(*command, context, arguments, report);
}

} // namespace dynamix::node
