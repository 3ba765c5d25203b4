#include "node/command.hpp"
#include "node/commit.hpp"
#include "node/rasterise.hpp"
#include "node/report.hpp"
#include "node/report_page.hpp"
#include "storage/atomic_file.hpp"

#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

struct report_arguments {
  std::string run;
  std::string html; ///< empty: report.html in the run directory
  std::string png;  ///< directory; empty: none
  bool json = false;
};

int fail(std::ostream& err, const std::string& problem) {
  err << "dynamix-node: error: " << problem << "\n";
  return exit_failed;
}

int report(const report_arguments& arguments, command_context& context) {
  std::string error;
  const run_directory run(arguments.run);
  const auto records = read_run(run, error);
  if (!error.empty())
    return refuse(context.err, error);
  const auto summary = summarise(records);
  if (arguments.json) {
    context.out << workers_json(summary);
  } else {
    const auto path = arguments.html.empty() ? run.page() : arguments.html;
    context.out << report_text(records, summary);
    if (const auto problem = storage::write_file_atomically(path, report_page(records, summary, program_version()));
        !problem.empty())
      return fail(context.err, problem);
    context.out << "\nWith plots: " << path << "\n";
  }
  if (arguments.png.empty())
    return exit_done;
  const auto plots = plots_of(records, summary, outcome_of(records, summary), records.course.marks());
  if (const auto problem = write_pngs(plots, arguments.png); !problem.empty())
    return fail(context.err, problem);
  if (!arguments.json)
    context.out << plots.size() << " plots as PNG: " << arguments.png << "\n";
  return exit_done;
}

} // namespace

void add_report(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<report_arguments>();
  auto* command =
      app.add_subcommand("report", "Tell what came of a run, also of one that still goes on: tables here, and a "
                                   "page with plots in one HTML file");
  command->add_option("--run", arguments->run, "Run directory")->required();
  command->add_option("--html", arguments->html, "Where the page goes (default: report.html in the run directory)");
  command->add_option("--png", arguments->png, "Also write every plot as a PNG into this directory");
  command->add_flag("--json", arguments->json, "Print the workers' table as JSON, and write no page");
  command->callback(
      [arguments, &context] { context.work = [arguments, &context] { return report(*arguments, context); }; });
}

} // namespace dynamix::node
