#include "cluster/tree_plan.hpp"
#include "dashboard/dashboard.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/launch/client_cluster.hpp"
#include "node/launch/local_run.hpp"
#include "node/launch/resume_point.hpp"
#include "node/launch/shipped_files.hpp"
#include "node/launch/stop_signals.hpp"
#include "node/reports/text.hpp"
#include "node/reports/trace.hpp"
#include "trainer/checkpoint.hpp"

#include <fmt/core.h>
#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

struct local_arguments {
  std::string cluster;
  std::uint32_t workers = 0; ///< 0: a cluster file says
  run_changes changes;
  std::string out;
  std::string resume;
  bool shadow = false;
  bool insecure = false;
  bool quiet = false;
  bool json = false;
  bool trace = false;
  bool log_json = false;
};

/// Makes the run directory ready. Returns exit_done, or what to end with after the reason has been written.
int prepare(const local_arguments& arguments, const run_directory& run, const cluster::cluster_file& file,
            std::ostream& err) {
  const bool resume = !arguments.resume.empty();
  if (!resume && !run.empty())
    return refuse(err, run.path() + " exists and is not empty; choose another --out, or --resume " +
                           shell_quoted(run.path()));
  std::string checkpoint; // each host looks for it itself
  const bool own_state = file.training.trainer == cluster::trainer_kind::built_in;
  if (const int code = resume && own_state ? find_resume_point(run, err, checkpoint) : exit_done; code != exit_done)
    return code;
  if (const auto reason = resume ? refuse_finished(run, file) : ""; !reason.empty())
    return refuse(err, reason);
  const auto problem = prepare_directory(run, file);
  return problem.empty() ? exit_done : fail(err, problem);
}

/// The lines that say how to go on after a run that did not come to its end.
std::string resume_hint(const cluster::cluster_file& file, const run_directory& run, bool insecure) {
  if (file.training.trainer == cluster::trainer_kind::client)
    return "The training processes have their own checkpoints.\n";
  const auto newest = trainer::newest_checkpoint(run.checkpoints());
  if (newest.path.empty())
    return "No checkpoint was written, so there is nothing to resume from.\n";
  return fmt::format("Checkpoint of step {}: {}\nResume with:\n    dynamix-node local --resume {}{}\n",
                     newest.state.step, newest.path, shell_quoted(run.path()), insecure ? " --insecure" : "");
}

/// Of all hosts, on one clock.
std::string join_trace(const run_directory& run) {
  const auto joined = join_traces(run.path(), run.trace());
  return joined.problem.empty() ? to_text(joined, run.trace()) : "none: " + joined.problem;
}

/// Where training processes join: once they can.
void tell_agents(const launch_options& options, live_output& live) {
  const auto directory = agent_directory(options.run);
  live.print(fmt::format("waiting for {} training processes at {}\n    export DYNAMIX_AGENT={}",
                         options.file.workers().size(), directory, shell_quoted(directory)));
}

int run_local(const local_arguments& arguments, command_context& context) {
  const stop_signals signals; // before any other thread
  const bool resume = !arguments.resume.empty();
  const auto path = !arguments.cluster.empty() ? arguments.cluster
                    : resume                   ? run_directory(arguments.resume).cluster_file()
                                               : find_shipped("clusters/local-4.toml");
  if (path.empty() && arguments.workers == 0)
    return refuse(context.err,
                  "the example cluster that comes with the program is not there; local needs --cluster FILE, "
                  "--workers N, or --resume RUN_DIR");
  auto changes = changes_of(arguments.changes);
  if (arguments.shadow)
    changes.push_back({"--shadow", "arbitrator.shadow", "true"});
  auto file = arguments.workers > 0 ? load_client_cluster(arguments.workers, context.err, changes)
                                    : load_cluster_file(path, context.err, changes);
  if (!file)
    return exit_refused;
  cluster::make_paths_absolute(*file); // for the copy in the run directory
  if (const int code = check_machine(*file, context.err); code != exit_done)
    return code;
  const auto& given = resume ? arguments.resume : arguments.out;
  const auto run = given.empty() ? make_default_run(*file) : run_directory(given);
  if (const int code = prepare(arguments, run, *file, context.err); code != exit_done)
    return code;

  auto options = local_options(*file, run);
  options.insecure = arguments.insecure;
  options.resume = resume;
  options.quiet = arguments.quiet || arguments.json;
  options.trace = arguments.trace;
  options.log_json = arguments.log_json;
  const bool for_clients = file->training.trainer == cluster::trainer_kind::client;
  live_output live(arguments.json ? context.err : context.out, output_style::detect());
  if (!options.quiet) {
    live.print(fmt::format("{}: {} workers, policy {}, seed {}, run directory {}", file->name, file->workers().size(),
                           cluster::to_string(file->arbitrator.policy), file->seed, run.path()));
    if (const auto plan = cluster::plan_tree(*file); !plan.central())
      live.print(cluster::describe_tree(plan));
    tell_page(options, live);
  }
  agents_watch agents(*file, run, [&] { tell_agents(options, live); });
  if (for_clients) {
    name_agents(options);
    options.observer = &agents;
  }
  const auto made = run_locally(options, live, signals.token());
  const int code = report_end(made, run, arguments.json, resume_hint(*file, run, arguments.insecure), live, context.out,
                              context.err);
  if (arguments.trace && !arguments.json)
    live.print("trace: " + join_trace(run));
  return code;
}

} // namespace

void add_local(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<local_arguments>();
  auto* command = app.add_subcommand("local", "Run every host of a cluster file as a process on this machine");
  auto* cluster = command->add_option(
      "--cluster", arguments->cluster,
      "Cluster file (default: with --resume that of the run, else an example of four unequal workers)");
  command
      ->add_option(
          "--workers", arguments->workers,
          "In place of a cluster file: agents for so many training processes of your own (trainer = \"client\")")
      ->check(CLI::Range(1, 256))
      ->excludes(cluster);
  add_run_changes(*command, arguments->changes);
  auto* out = command->add_option("--out", arguments->out,
                                  "Run directory, new or empty (default: runs/<cluster>-<policy>-<UTC time>)");
  command->add_option("--resume", arguments->resume, "Run directory to resume from its newest checkpoint")
      ->excludes(out);
  command->add_flag("--shadow", arguments->shadow, "Decide and log without changing batch sizes");
  command->add_flag("--insecure", arguments->insecure,
                    "Make no keys for this run: its hosts talk in the clear, to whoever reaches their ports");
  command->add_flag("--trace", arguments->trace,
                    "Trace windows, steps, collectives and decisions of all hosts, for Perfetto");
  command->add_flag("--log-json", arguments->log_json, "Hosts log one JSON object per line");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->add_flag("--json", arguments->json,
                    "Print the workers' table as JSON, and nothing else, on standard output");
  add_work(*command, context, arguments, run_local);
}

} // namespace dynamix::node
