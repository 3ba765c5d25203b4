#include "actors/swarm/swarm_transport.hpp"
#include "links/key_directory.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/experiments/swarm_setup.hpp"
#include "node/launch/keys.hpp"
#include "node/launch/live_output.hpp"
#include "node/launch/stop_signals.hpp"
#include "swarm/part.hpp"

#include <spdlog/spdlog.h>

#include <memory>
#include <ostream>
#include <unistd.h>

namespace dynamix::node {
namespace {

/// A process of the swarm itself, which `run_swarm_command` starts.
int run_part(const swarm_arguments& arguments, command_context& context) {
  spdlog::set_level(spdlog::level::warn);
  auto loaded = load_cluster_file(arguments.cluster, context.err);
  if (!loaded)
    return exit_refused;
  const auto file = std::make_shared<const cluster::cluster_file>(std::move(*loaded));
  simulator::scenario scenario;
  for (const auto& error : simulator::load_scenario(*file, scenario))
    return refuse_at(context.err, error);
  const auto ranks = swarm_ranks(*file, arguments.processes).at(arguments.part);
  const auto name = actors::swarm_part_name(arguments.part);
  const auto keys = arguments.keys.empty() ? "" : links::host_directory(arguments.keys, name);
  swarm::channel conductor(STDIN_FILENO);
  return swarm::run_part(scenario, ranks, conductor, [&](swarm::transport_events& events) {
    return actors::make_swarm_transport(file, ranks, name, keys, events);
  });
}

int run_swarm_command(const swarm_arguments& arguments, command_context& context) {
  const stop_signals signals; // before any other thread
  live_output live(arguments.json ? context.err : context.out, output_style::detect());
  swarm_setup setup;
  if (const auto problem = prepare_swarm(arguments, setup, context); problem != exit_done)
    return problem;
  const bool shown = !arguments.quiet && !arguments.json;
  if (shown)
    live.print(describe(setup));
  const auto made = run_swarm(
      setup.run,
      [&](const std::string& line) {
        if (shown)
          live.progress(line);
      },
      signals.token());
  remove_run_keys(run_directory(setup.directory->path()));
  if (!made.outcome.failure.empty()) {
    context.err << "dynamix-node: " << (made.outcome.stopped ? "" : "error: ") << made.outcome.failure << "\n";
    if (!made.outcome.stopped && !arguments.out.empty())
      context.err << "logs: " << arguments.out << "/logs\n";
    return exit_failed;
  }
  const auto result = sum_up(setup, made);
  if (arguments.json)
    context.out << swarm_json(result);
  else
    live.print(swarm_text(result));
  if (shown && !arguments.out.empty())
    live.print("run directory: " + arguments.out);
  return result.outcome.lost == 0 && result.outcome.farewells == result.workers ? exit_done : exit_failed;
}

} // namespace

void add_swarm(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<swarm_arguments>();
  auto* command = app.add_subcommand(
      "swarm", "Size a cluster: many workers that only report, against real arbitrators over real sockets");
  command->footer(
      "Latencies are taken on CLOCK_MONOTONIC, from the moment at which the window ends for all workers at\n"
      "once to the moment at which a worker has applied the decision on it. All processes share this\n"
      "machine's cores: docs/sizing.md says how to read the figures for a cluster.");
  command
      ->add_option("--workers", arguments->workers, "Workers, up to 4096 (default: those of the cluster file, or 64)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--cluster", arguments->cluster,
                      "Cluster file whose settings are used, and whose hosts are repeated up to that many workers "
                      "(default: made-up hosts of two speeds)");
  command->add_option("--topology", arguments->topology, "central or tree (overrides the file's arbitrator.topology)");
  command->add_option("--fanout", arguments->fanout, "Overrides the file's arbitrator.fanout");
  command->add_option("--policy", arguments->policy, "Overrides the file's arbitrator.policy");
  command
      ->add_option("--replicas", arguments->replicas,
                   "Hosts of which one is the arbitrator, or the tree's root: 1, 3 or 5")
      ->check(CLI::IsMember({1U, 3U, 5U}))
      ->capture_default_str();
  command->add_flag("--kill-leader", arguments->kill_leader,
                    "Kill the replica that decides in the middle of the measured windows");
  command->add_option("--windows", arguments->windows, "Windows to measure")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--warm-up", arguments->warm_up, "Warm-up windows before them")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command->add_option("--interval-ms", arguments->interval_ms, "Milliseconds from the end of one window to the next")
      ->check(CLI::Range(1, 60000))
      ->capture_default_str();
  command
      ->add_option("--processes", arguments->processes,
                   "Processes that hold the workers (default: one for 512, at most 8)")
      ->check(CLI::Range(1, 64));
  command->add_option("--seed", arguments->seed, "Overrides the file's cluster.seed");
  add_set(*command, arguments->set);
  command->add_option("--out", arguments->out,
                      "New or empty directory for cluster file, ledger and logs (default: nothing is kept)");
  command->add_flag("--insecure", arguments->insecure,
                    "Make no keys for this swarm: its processes talk in the clear, to measure what links cost");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->add_flag("--json", arguments->json, "Print the figures as JSON, and nothing else, on standard output");
  command->add_option("--part", arguments->part, "The process of the swarm that this is")->group("");
  command->add_option("--keys", arguments->keys, "Where that one's keys are")->group("");
  command->callback([arguments, command, &context] {
    const bool part = command->count("--part") > 0;
    context.work = [arguments, part, &context] {
      return part ? run_part(*arguments, context) : run_swarm_command(*arguments, context);
    };
  });
}

} // namespace dynamix::node
