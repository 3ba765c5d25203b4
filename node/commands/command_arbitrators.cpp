#include "actors/host/command_socket.hpp"
#include "cluster/text_table.hpp"
#include "node/commands/command.hpp"
#include "node/launch/run_directory.hpp"
#include "node/reports/text.hpp"
#include "settings/field.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <fmt/core.h>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace dynamix::node {
namespace {

using nlohmann::json;

/// A change waits until a majority of the replicas keeps it.
constexpr std::chrono::milliseconds answer_patience{15000};
constexpr std::size_t workers_named = 8;

struct arbitrators_arguments {
  std::string run;
  std::string line = "list";
  std::vector<std::string> hosts; ///< of the command
  bool as_json = false;
};

/// What the host that leads answers. Null with the reason: none of this run's on this machine does.
json ask(const run_directory& run, const cluster::cluster_file& file, const std::string& line, std::string& problem) {
  std::string leader;
  std::string said;
  for (const auto* host : file.arbitrators()) {
    const auto answer =
        actors::ask_command_socket(actors::command_socket_of(run.path(), host->name), line, answer_patience, said);
    const auto parsed = json::parse(answer, nullptr, false);
    if (!parsed.is_object())
      continue;
    if (!parsed.contains("leader"))
      return parsed;
    leader = parsed["leader"].get<std::string>();
  }
  problem = leader.empty() ? fmt::format("no arbitrator of {} runs on this machine, or leads; ask on a host of {}",
                                         run.path(), listed(file.arbitrators(), &cluster::host::name))
                           : fmt::format("host {} leads: ask there", leader);
  return {};
}

void print(const json& state, std::ostream& out) {
  out << fmt::format("{}: root on {}, term {}, generation {}", state.at("cluster").get<std::string>(),
                     state.at("root").get<std::string>(), state.at("term").get<std::uint64_t>(),
                     state.at("generation").get<std::uint64_t>());
  if (const auto replicas = state.at("replicas").get<std::vector<std::string>>(); replicas.size() > 1)
    out << ", replicas " << listed(replicas);
  out << "\n";
  std::vector<std::vector<std::string>> rows = {{"host", "holds", "state", "below", "workers", ""}};
  for (const auto& one : state.at("arbitrators")) {
    auto workers = one.at("workers").get<std::vector<std::string>>();
    const auto count = workers.size();
    if (count > workers_named)
      workers.resize(workers_named);
    std::string names;
    for (const auto& name : workers)
      names += (names.empty() ? "" : " ") + name;
    rows.push_back({one.at("host").get<std::string>(), one.at("role").get<std::string>(),
                    one.at("state").get<std::string>(), one.at("parent").get<std::string>(), std::to_string(count),
                    names + (count > workers_named ? " .." : "")});
  }
  out << cluster::text_table(rows);
}

/// A host that the tree does not have, with the one that was probably meant.
std::string find_stranger(const json& state, const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const auto& one : state.at("arbitrators"))
    names.push_back(one.at("host").get<std::string>());
  const std::vector<std::string_view> views(names.begin(), names.end());
  for (const auto& host : hosts)
    if (std::ranges::find(names, host) == names.end())
      return fmt::format("there is no arbitrator on host {}; {}they are on {}", host, settings::suggestion(host, views),
                         listed(names));
  return "";
}

int arbitrators(const arbitrators_arguments& arguments, command_context& context) {
  const run_directory run(arguments.run);
  cluster::cluster_file file;
  if (const auto none = read_cluster_of(run, file); !none.empty())
    return refuse(context.err, none);
  std::string problem;
  auto state = ask(run, file, "list", problem);
  if (state.is_null())
    return refuse(context.err, problem);
  if (!arguments.hosts.empty()) {
    if (problem = find_stranger(state, arguments.hosts); !problem.empty())
      return refuse(context.err, problem);
    auto line = arguments.line;
    for (const auto& host : arguments.hosts)
      line += " " + host;
    state = ask(run, file, line, problem);
    if (state.is_null() || !state.value("done", false))
      return refuse(context.err, state.is_null() ? problem : state.value("reason", "the root refuses"));
  }
  if (arguments.as_json)
    context.out << state.dump() << "\n";
  else if (arguments.hosts.empty())
    print(state, context.out);
  else
    context.out << state.value("reason", "") << "\n";
  return exit_done;
}

} // namespace

void add_arbitrators(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<arbitrators_arguments>();
  auto* command =
      app.add_subcommand("arbitrators", "List a running cluster's arbitrators; add, drain or move shards of its tree");
  command->add_option("--run", arguments->run, "Run directory, on the host that holds the root")->required();
  command->add_flag("--json", arguments->as_json, "Print JSON");
  std::vector<CLI::Option*> verbs;
  const auto verb = [&](const char* name, int hosts, const char* names, const char* about) {
    auto* option = command->add_option(
        std::string("--") + name,
        [arguments, name](const CLI::results_t& given) {
          arguments->line = name;
          arguments->hosts = given;
          return true;
        },
        about);
    option->expected(hosts)->type_name(names);
    for (auto* other : verbs)
      option->excludes(other);
    verbs.push_back(option);
  };
  verb("add", 1, "HOST", "Let the shard that stands by on this host take workers, from the largest");
  verb("drain", 1, "HOST", "Send this host's shard's workers to the others; it stands by then");
  verb("move", 2, "HOST TO", "Send this host's shard's workers to the one that stands by on another");
  add_work(*command, context, arguments, arbitrators);
}

} // namespace dynamix::node
