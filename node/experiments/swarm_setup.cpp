#include "node/experiments/swarm_setup.hpp"

#include "actors/swarm/swarm_transport.hpp"
#include "cluster/tree_plan.hpp"
#include "ledger/line_reader.hpp"
#include "links/free_port.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/launch/keys.hpp"
#include "node/launch/run_directory.hpp"
#include "node/reports/text.hpp"
#include "simulator/scenario.hpp"
#include "swarm/cluster.hpp"
#include "swarm/process_usage.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/core.h>
#include <ostream>
#include <stdlib.h>
#include <sys/resource.h>
#include <system_error>
#include <thread>

namespace dynamix::node {
namespace {

constexpr std::uint32_t default_workers = 64;
constexpr std::size_t descriptors_a_process = 16; ///< log, ledger, epoll, pipes and sockets of an actor system
constexpr std::size_t descriptors_own = 64;

/// Raises the limit as far as it may go. Empty, or why so many descriptors cannot be had.
std::string allow_descriptors(std::size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
    return {};
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, wanted);
  if (limit.rlim_cur >= wanted && ::setrlimit(RLIMIT_NOFILE, &limit) == 0)
    return {};
  return fmt::format("this swarm needs {} file descriptors a process and may have {}; raise the limit (ulimit -n), or "
                     "ask for fewer processes",
                     wanted, limit.rlim_max);
}

child_options swarm_process(const swarm_directory& directory, std::vector<std::string> arguments,
                            const std::string& name) {
  return {.program = own_program(),
          .arguments = std::move(arguments),
          .environment = {{"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}},
          .output = directory.path() + "/logs/" + name + ".out"};
}

/// The root, which is the central arbitrator where there is no tree; the levels between; the shards.
std::vector<swarm_level> deciding_levels(const swarm_setup& setup, std::size_t parts) {
  const auto& file = setup.file;
  const run_directory run(setup.directory->path());
  const auto plan = cluster::plan_tree(file);
  std::vector<swarm_level> levels;
  for (const auto& node : plan.nodes) {
    if (node.stands_by)
      continue;
    const auto name = node.level == 0 ? "arbitrator" : node.is_shard() ? "shards" : fmt::format("level {}", node.level);
    if (levels.empty() || levels.back().name != name)
      levels.push_back({.name = name});
    for (const auto* host : node.level == 0 ? file.arbitrators() : std::vector{file.find(node.host)}) {
      std::vector<std::string> arguments = {"run",      "--cluster", run.cluster_file(), "--name",
                                            host->name, "--out",     run.path()};
      if (host->has(cluster::role::worker)) // the swarm plays it
        arguments.emplace_back("--without-worker");
      arguments.insert(arguments.end(), {"--swarm-processes", std::to_string(parts)});
      if (!setup.keys.empty())
        arguments.insert(arguments.end(), {"--keys", setup.keys});
      levels.back().hosts.push_back(host->name);
      levels.back().ports.push_back(host->port);
      levels.back().processes.push_back(swarm_process(*setup.directory, std::move(arguments), host->name));
    }
  }
  return levels;
}

/// Keys for the processes that there will be, and for no other host. Returns an empty string, or what went wrong.
std::string make_swarm_keys(swarm_setup& setup, std::size_t parts) {
  auto request = key_request_of(setup.file);
  request.hosts.clear();
  const auto plan = cluster::plan_tree(setup.file);
  for (const auto& node : plan.nodes)
    if (node.level > 0)
      request.hosts.push_back(node.host);
  for (const auto* host : setup.file.arbitrators())
    request.hosts.push_back(host->name);
  for (std::size_t part = 0; part < parts; ++part)
    request.hosts.push_back(actors::swarm_part_name(part));
  setup.keys = run_keys(run_directory(setup.directory->path()));
  return links::make_passing_keys(setup.keys, request);
}

/// The processes that hold the workers.
void add_parts(swarm_setup& setup, std::size_t parts) {
  const run_directory run(setup.directory->path());
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<std::string> words = {
        "swarm", "--cluster", run.cluster_file(), "--processes", std::to_string(parts), "--part", std::to_string(part)};
    if (!setup.keys.empty())
      words.insert(words.end(), {"--keys", setup.keys});
    setup.run.parts.push_back(swarm_process(*setup.directory, std::move(words), actors::swarm_part_name(part)));
  }
}

/// Decisions in the run's ledger, without reading more into it than the count takes.
std::uint64_t count_decisions(const std::string& ledger) {
  static const std::string one = "\"decided_batch\":";
  std::uint64_t count = 0;
  ledger::line_reader lines(ledger);
  for (std::string line; lines.next(line);) {
    if (line.find("\"kind\":\"window\"") == std::string::npos || line.find("\"decided\":true") == std::string::npos)
      continue;
    for (auto at = line.find(one); at != std::string::npos; at = line.find(one, at + one.size()))
      ++count;
  }
  return count;
}

} // namespace

swarm_directory::swarm_directory(const std::string& keep) : path_(keep), temporary_(keep.empty()) {
  if (!temporary_)
    return;
  std::string pattern = (std::filesystem::temp_directory_path() / "dynamix-swarm-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), "cannot make " + pattern);
  path_ = pattern;
}

swarm_directory::~swarm_directory() {
  std::error_code ignored;
  if (temporary_)
    std::filesystem::remove_all(path_, ignored);
}

std::vector<std::vector<std::uint32_t>> swarm_ranks(const cluster::cluster_file& file, std::uint32_t processes) {
  const auto workers = static_cast<std::uint32_t>(file.workers().size());
  return swarm::deal_ranks(swarm::shard_sizes(file), processes == 0 ? swarm::default_processes(workers) : processes);
}

std::map<std::string, std::set<std::uint32_t>> swarm_stand_ins(const cluster::cluster_file& file,
                                                               std::uint32_t processes) {
  std::map<std::string, std::set<std::uint32_t>> named;
  for (std::size_t part = 0; const auto& ranks : swarm_ranks(file, processes))
    named[actors::swarm_part_name(part++)] = {ranks.begin(), ranks.end()};
  return named;
}

int prepare_swarm(const swarm_arguments& arguments, swarm_setup& setup, command_context& context) {
  if (own_program().empty())
    return refuse(context.err, std::string(own_program_link) + ": " + own_program_missing);
  auto base = arguments.cluster.empty() ? swarm::default_cluster() : cluster::cluster_file{};
  if (!arguments.cluster.empty()) {
    auto loaded = load_cluster_file(arguments.cluster, context.err);
    if (!loaded)
      return exit_refused;
    base = std::move(*loaded);
  }
  if (arguments.kill_leader && arguments.replicas < 2)
    return refuse(context.err, "--kill-leader needs --replicas 3 or 5: nobody would decide after it");
  if (!arguments.out.empty() && !run_directory(arguments.out).empty())
    return refuse(context.err, arguments.out + " exists and is not empty; choose another --out");
  const auto known = arguments.cluster.empty() ? default_workers : static_cast<std::uint32_t>(base.workers().size());
  const auto workers = arguments.workers == 0 ? known : arguments.workers;
  setup.directory =
      std::make_unique<swarm_directory>(arguments.out.empty() ? "" : std::filesystem::absolute(arguments.out).string());
  const run_directory run(setup.directory->path());
  setup.file = swarm::describe(base, workers, links::take_free_port(), run.path());
  if (arguments.replicas > 1)
    swarm::add_replicas(setup.file, arguments.replicas, links::take_free_port);
  const auto changes = changes_of(arguments.set, {{"--topology", "arbitrator.topology", arguments.topology},
                                                  {"--fanout", "arbitrator.fanout", arguments.fanout},
                                                  {"--policy", "arbitrator.policy", arguments.policy},
                                                  {"--seed", "cluster.seed", arguments.seed}});
  if (!change_cluster_file(setup.file, changes, context.err))
    return exit_refused;
  setup.file.security.keys.clear(); // they are of other hosts than the swarm's
  const bool makes_keys = !arguments.insecure && !setup.file.insecure;
  if (!makes_keys && arguments.replicas > 1)
    return refuse(context.err, "--replicas needs keys, by which the replicas know each other: leave " +
                                   std::string(arguments.insecure ? "--insecure" : "cluster.insecure") + " out");
  cluster::make_paths_absolute(setup.file);
  if (const auto problem = swarm::place_arbitrators(setup.file, links::take_free_port); !problem.empty())
    return refuse(context.err, problem);
  auto problem = run.create();
  if (problem.empty())
    problem = swarm::write_models(run.path());
  if (problem.empty())
    problem = write_cluster_copy(run, setup.file);
  const auto shares = swarm_ranks(setup.file, arguments.processes);
  simulator::scenario scenario;
  if (problem.empty())
    for (const auto& error : simulator::load_scenario(setup.file, scenario))
      return refuse_at(context.err, error);
  if (problem.empty() && makes_keys)
    problem = make_swarm_keys(setup, shares.size());
  if (!problem.empty())
    return fail(context.err, problem);

  setup.run.deciding = deciding_levels(setup, shares.size());
  add_parts(setup, shares.size());
  setup.run.kill_leader_before = arguments.kill_leader ? arguments.windows / 2 + 1 : 0;
  setup.run.ledger = run.ledger();
  setup.run.orderly_end = !arguments.out.empty();
  setup.run.conductor = {.workers = workers,
                         .windows = arguments.windows,
                         .warm_up = arguments.warm_up,
                         .interval_ms = arguments.interval_ms,
                         .window_steps = setup.file.arbitrator.window_steps,
                         .initial_batch = setup.file.batch.initial};
  std::size_t processes = setup.run.parts.size();
  for (const auto& level : setup.run.deciding)
    processes += level.processes.size();
  if (const auto reason = allow_descriptors(descriptors_own + descriptors_a_process + 2 * processes); !reason.empty())
    return refuse(context.err, reason);
  return exit_done;
}

std::string describe(const swarm_setup& setup) {
  const auto& file = setup.file;
  const auto& wanted = setup.run.conductor;
  const auto replicas = file.arbitrators().size();
  return fmt::format(
      "{}: {} workers in {}{}{} arbitrator{}, policy {}{}, {} windows, one every {} ms, {} cores, {}", file.name,
      grouped(wanted.workers), setup.run.parts.size(), setup.run.parts.size() == 1 ? " process, " : " processes, ",
      cluster::to_string(file.arbitrator.topology), replicas > 1 ? fmt::format(" of {} replicas", replicas) : "",
      cluster::to_string(file.arbitrator.policy),
      cluster::has_parameters(file.arbitrator.policy)
          ? " (" + std::string(cluster::to_string(file.arbitrator.mode)) + ")"
          : "",
      grouped(wanted.windows), grouped(wanted.interval_ms), std::thread::hardware_concurrency(),
      setup.keys.empty() ? "without keys" : "over links");
}

swarm_result sum_up(const swarm_setup& setup, const swarm_run& made) {
  const auto& file = setup.file;
  swarm_result result{.cluster = file.name,
                      .policy = std::string(cluster::to_string(file.arbitrator.policy)),
                      .links = !setup.keys.empty(),
                      .topology = std::string(cluster::to_string(file.arbitrator.topology)),
                      .workers = setup.run.conductor.workers,
                      .interval_ms = setup.run.conductor.interval_ms,
                      .detect_ms = file.detect_ms,
                      .cores = std::thread::hardware_concurrency(),
                      .decisions_made = count_decisions(run_directory(setup.directory->path()).ledger()),
                      .levels = made.levels,
                      .outcome = made.outcome,
                      .replicas = static_cast<std::uint32_t>(file.arbitrators().size()),
                      .killed = made.killed,
                      .killed_before = setup.run.kill_leader_before,
                      .after_kill = made.after_kill};
  const auto messages = made.outcome.traffic.sent + made.outcome.traffic.received;
  for (auto& level : result.levels)
    if (level.name == "workers" || &level == &result.levels[result.levels.size() - 2])
      level.messages = messages;
  return result;
}

} // namespace dynamix::node
