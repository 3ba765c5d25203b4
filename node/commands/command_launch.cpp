#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/launch/keys.hpp"
#include "node/launch/local_run.hpp"
#include "node/launch/remote_run.hpp"
#include "node/launch/stop_signals.hpp"
#include "node/reports/text.hpp"

#include <filesystem>
#include <fmt/core.h>
#include <memory>
#include <ostream>
#include <utility>

namespace dynamix::node {
namespace {

struct launch_arguments {
  std::string cluster;
  run_changes changes;
  std::string out;
  std::string resume;
  remote_options remote;
  bool log = false;
  bool quiet = false;
  bool json = false;
};

/// The run directory's name is that on the hosts too, so that --resume finds it there.
std::string directory_there(const run_directory& run) {
  auto path = std::filesystem::absolute(run.path()).lexically_normal();
  if (path.filename().empty())
    path = path.parent_path();
  return "dynamix-runs/" + path.filename().string();
}

/// Makes the run directory ready. Returns exit_done, or what to end with after the reason has been written.
int prepare(const launch_arguments& arguments, const run_directory& run, const cluster::cluster_file& file,
            std::ostream& err) {
  if (arguments.resume.empty() && !run.empty())
    return refuse(err, run.path() + " exists and is not empty; choose another --out, or --resume " + run.path());
  if (const auto reason = arguments.resume.empty() ? "" : refuse_finished(run, file); !reason.empty())
    return refuse(err, reason);
  const auto problem = prepare_directory(run, file);
  return problem.empty() ? exit_done : fail(err, problem);
}

/// How to go on, with whatever of how the hosts are reached the run directory does not tell.
std::string resume_hint(const remote_options& remote, const run_directory& run) {
  std::string options;
  const auto add = [&](const char* name, const std::string& value, const std::string& taken_anyway) {
    if (value != taken_anyway)
      options += fmt::format(" {} {}", name, shell_quoted(value));
  };
  add("--ssh", remote.ssh, remote_options{}.ssh);
  add("--program", remote.program, remote_options{}.program);
  add("--directory", remote.directory, directory_there(run));
  return fmt::format("Resume with:\n    dynamix-node launch --resume {}{}\n", shell_quoted(run.path()), options);
}

int launch_hosts(const launch_arguments& arguments, command_context& context) {
  const stop_signals signals; // before any other thread
  const bool resume = !arguments.resume.empty();
  if (arguments.cluster.empty() && !resume)
    return refuse(context.err, "launch needs --cluster FILE, or --resume RUN_DIR");
  auto file =
      load_cluster_file(arguments.cluster.empty() ? run_directory(arguments.resume).cluster_file() : arguments.cluster,
                        context.err, changes_of(arguments.changes));
  if (!file)
    return exit_refused;
  cluster::make_paths_absolute(*file);
  const auto errors = check_hosts(*file);
  for (const auto& error : errors)
    refuse_at(context.err, error);
  if (!errors.empty())
    return exit_refused;
  const auto& given = resume ? arguments.resume : arguments.out;
  const auto run = given.empty() ? make_default_run(*file) : run_directory(given);
  if (const int code = prepare(arguments, run, *file, context.err); code != exit_done)
    return code;

  auto remote = arguments.remote;
  if (remote.directory.empty())
    remote.directory = directory_there(run);
  launch_options options{.file = *file, .run = run, .program = own_program()};
  options.resume = resume;
  options.quiet = arguments.quiet || arguments.json;
  const bool make_keys = file->security.keys.empty();
  options.keys = key_directory_of(*file);
  run_key_guard guard;
  std::string problem = make_keys ? guard.begin(run) : "";
  if (problem.empty() && make_keys)
    problem = make_run_keys(*file, run, options.keys);
  if (problem.empty())
    problem = start_remotely(options, remote);
  if (!problem.empty())
    return fail(context.err, problem);
  const auto there =
      remote.directory.starts_with('/') ? shell_quoted(remote.directory) : "~/" + shell_quoted(remote.directory);
  live_output live(arguments.json ? context.err : context.out, output_style::detect());
  if (!options.quiet)
    live.print(fmt::format("{}: {} hosts, {} workers, policy {}, seed {}, run directory {}, on the hosts {}/HOST",
                           file->name, file->hosts.size(), file->workers().size(),
                           cluster::to_string(file->arbitrator.policy), file->seed, run.path(), there));
  if (!options.quiet && file->training.trainer == cluster::trainer_kind::client)
    live.print(fmt::format("training processes join on each host by dynamix-node exec --run {}/HOST --name HOST -- ...",
                           there));
  remote_watch watch(options, remote, live, arguments.log);
  options.observer = &watch;
  auto launched = launch(options, live, signals.token());
  guard.end();
  if (problem = watch.finish(); !problem.empty() && launched.error.empty())
    launched.warnings.push_back(problem);
  return report_end(sum_up(run, std::move(launched)), run, arguments.json, resume_hint(remote, run), live, context.out,
                    context.err);
}

} // namespace

void add_launch(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<launch_arguments>();
  auto* command = app.add_subcommand(
      "launch", "Run every host of a cluster file on its own machine, reached by ssh at the file's addresses");
  command->add_option("--cluster", arguments->cluster, "Cluster file (default: with --resume that of the run)");
  add_run_changes(*command, arguments->changes);
  auto* out = command->add_option("--out", arguments->out,
                                  "Run directory here, new or empty (default: runs/<cluster>-<policy>-<UTC time>)");
  command->add_option("--resume", arguments->resume, "Run directory to resume, each host from its newest checkpoint")
      ->excludes(out);
  command->add_option(
      "--directory", arguments->remote.directory,
      "Directory on the hosts, below the home directory there unless absolute; each host has one of its "
      "own in it (default: dynamix-runs/NAME of the run directory)");
  add_reach(*command, arguments->remote);
  command->add_flag("--log", arguments->log, "Print the hosts' logs, with the host's name before each line");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->add_flag("--json", arguments->json,
                    "Print the workers' table as JSON, and nothing else, on standard output");
  add_work(*command, context, arguments, launch_hosts);
}

} // namespace dynamix::node
