#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/experiments/compared_policies.hpp"
#include "node/launch/stop_signals.hpp"

#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

int finish(const comparison_inputs& inputs, const compared_policies& made, live_output& live,
           command_context& context) {
  const auto page = write_comparison(inputs, made.tables, context.command);
  if (inputs.json) {
    context.out << to_json(made.tables);
  } else {
    for (const auto& each : made.tables)
      live.print("\n" + to_text(each));
    if (const auto closing = closing_text(made.tables); !closing.empty())
      live.print("\n" + closing);
    live.print(
        "\nrows: " + inputs.out + "/comparison.json\n" +
        (page.empty() ? "no page: this program was built without it (-DDYNAMIX_DASHBOARD=OFF)" : "report: " + page));
  }
  if (made.failed == 0)
    return exit_done;
  context.err << "dynamix-node: error: " << made.failed
              << " runs failed and count as never reaching the target. Repeat them with:\n    "
              << inputs.resume_command(context.command) << "\n";
  return exit_failed;
}

int compare(const compare_arguments& arguments, command_context& context) {
  const stop_signals signals; // before any other thread
  comparison_inputs inputs;
  if (const int code = read_inputs(arguments, inputs, context.err); code != exit_done)
    return code;
  live_output live(inputs.json ? context.err : context.out, output_style::detect());
  live.print(inputs.title());
  const auto made = compare_policies(arguments, inputs, live, signals.token());
  if (!made.problem.empty())
    return refuse(context.err, made.problem);
  if (made.stopped) {
    context.err << "dynamix-node: stopped with " << made.finished << " runs finished. Go on with:\n    "
                << inputs.resume_command(context.command) << "\n";
    return exit_failed;
  }
  return finish(inputs, made, live, context);
}

} // namespace

void add_compare(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<compare_arguments>();
  auto* command = app.add_subcommand("compare", "Run several policies on one cluster file or more, side by side");
  command->add_option("--cluster", arguments->clusters, "Cluster files, or directories of them")->required();
  command->add_option("--policies", arguments->policies,
                      "Comma-separated names (default: static,static-best,lb-bsp,omnilearn,goodput,ppo and, with "
                      "--simulate, oracle); static-best looks for the best equal batch unless "
                      "arbitrator.static_batch is set");
  command->add_option("--seeds", arguments->seeds, "Runs of each policy, from the file's cluster.seed on")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--simulate", arguments->simulate, "Simulate in virtual time instead of training on this machine");
  command->add_option("--out", arguments->out,
                      "Directory of the results and of every run; finished runs in it are kept (default: "
                      "runs/compare-<cluster>-<UTC time>)");
  add_comparison_options(*command, *arguments);
  command->add_flag("--json", arguments->json, "Print the rows as JSON, and nothing else, on standard output");
  add_work(*command, context, arguments, compare);
}

} // namespace dynamix::node
