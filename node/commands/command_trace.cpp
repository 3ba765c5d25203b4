#include "node/commands/command.hpp"
#include "node/launch/run_directory.hpp"
#include "node/reports/trace.hpp"

#include <memory>
#include <ostream>

namespace dynamix::node {

void add_trace(CLI::App& app, command_context& context) {
  struct trace_arguments {
    std::string run;
    std::string out;
  };
  auto arguments = std::make_shared<trace_arguments>();
  auto* command =
      app.add_subcommand("trace", "Join the traces of a run's hosts (made with --trace) on one clock, for Perfetto");
  command->add_option("--run", arguments->run, "Run directory, with the hosts' files in traces/")->required();
  command->add_option("--out", arguments->out, "Where the trace goes (default: trace.json in the run directory)");
  command->callback([arguments, &context] {
    context.work = [arguments, &context] {
      if (const auto problem = why_no_run(run_directory(arguments->run)); !problem.empty())
        return refuse(context.err, problem);
      const auto path = arguments->out.empty() ? run_directory(arguments->run).trace() : arguments->out;
      const auto outcome = join_traces(arguments->run, path);
      if (!outcome.problem.empty())
        return refuse(context.err, outcome.problem);
      context.out << to_text(outcome, path);
      return static_cast<int>(exit_done);
    };
  });
}

} // namespace dynamix::node
