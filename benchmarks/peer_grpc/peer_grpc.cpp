/// `dynamix-node swarm` with a gRPC star in the place of our arbitrator and of our workers' connections: the same
/// cluster, conductor, simulated hosts and clock. The processes that it starts are this program again.

#include "benchmarks/peer_grpc/star_server.hpp"
#include "benchmarks/peer_grpc/star_transport.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/experiments/swarm_setup.hpp"
#include "node/launch/stop_signals.hpp"
#include "simulator/scenario.hpp"
#include "swarm/part.hpp"

#include <CLI/CLI.hpp>

#include <iostream>
#include <unistd.h>

namespace dynamix::benchmarks {
namespace {

int run_part(const node::swarm_arguments& arguments, const cluster::cluster_file& file) {
  simulator::scenario scenario;
  if (!simulator::load_scenario(file, scenario).empty())
    return 1;
  const auto ranks = node::swarm_ranks(file, arguments.processes).at(arguments.part);
  swarm::channel conductor(STDIN_FILENO);
  return swarm::run_part(scenario, ranks, conductor,
                         [&](swarm::transport_events& events) { return make_star_transport(file, ranks, events); });
}

int lead(const node::swarm_arguments& arguments, node::command_context& context) {
  const node::stop_signals signals;
  node::swarm_setup setup;
  if (const int code = node::prepare_swarm(arguments, setup, context); code != 0)
    return code;
  const auto made = node::run_swarm(
      setup.run, [](const std::string&) {}, signals.token());
  if (!made.outcome.failure.empty()) {
    std::cerr << "peer_grpc: " << made.outcome.failure << "\n";
    return 1;
  }
  auto result = node::sum_up(setup, made);
  result.topology = "gRPC star";
  result.decisions_made = made.outcome.whole.received - made.outcome.whole.hellos; // it keeps no ledger
  std::cout << (arguments.json ? node::swarm_json(result) : node::swarm_text(result));
  return result.outcome.lost == 0 ? 0 : 1;
}

int run(int argc, char** argv) {
  node::swarm_arguments arguments;
  arguments.insecure = true; // it has no links
  CLI::App app("A flat gRPC star as rival of dynamix-node swarm");
  std::string name;
  app.require_subcommand(1);
  auto* server = app.add_subcommand("run", "The star's arbitrator");
  server->add_option("--cluster", arguments.cluster);
  server->add_option("--name", name);
  server->add_option("--out", arguments.out);
  auto* swarm = app.add_subcommand("swarm", "The swarm, or one of its parts");
  swarm->add_option("--cluster", arguments.cluster);
  swarm->add_option("--workers", arguments.workers)->check(CLI::Range(1, 4096));
  swarm->add_option("--windows", arguments.windows);
  swarm->add_option("--warm-up", arguments.warm_up);
  swarm->add_option("--interval-ms", arguments.interval_ms);
  swarm->add_option("--processes", arguments.processes);
  swarm->add_option("--policy", arguments.policy);
  swarm->add_option("--set", arguments.set)->allow_extra_args(false);
  swarm->add_flag("--json", arguments.json);
  auto* part = swarm->add_option("--part", arguments.part);
  CLI11_PARSE(app, argc, argv);
  node::command_context context{std::cout, std::cerr, "", {}};
  if (*swarm && part->count() == 0)
    return lead(arguments, context);
  const auto file = node::load_cluster_file(arguments.cluster, std::cerr);
  if (!file)
    return 2;
  return *server ? serve_star(*file) : run_part(arguments, *file);
}

} // namespace
} // namespace dynamix::benchmarks

int main(int argc, char** argv) {
  const int code = dynamix::benchmarks::run(argc, argv);
  std::cout.flush();
  std::_Exit(code); // as dynamix-node: threads may still use what statics hold
}
