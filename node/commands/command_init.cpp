#include "cluster/cluster_file.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/launch/host_list.hpp"
#include "node/launch/keys.hpp"
#include "node/launch/live_output.hpp"
#include "node/launch/probe.hpp"
#include "node/launch/shipped_files.hpp"
#include "node/reports/text.hpp"
#include "node/training/loaded_trainer.hpp"
#include "settings/field.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <ostream>
#include <span>

namespace dynamix::node {
namespace {

constexpr std::size_t hostfile_limit_bytes = std::size_t{1} << 20;
constexpr std::size_t commands_shown = 4;

struct init_arguments {
  std::string hosts;
  std::string hostfile;
  bool slurm = false;
  bool from_env = false;
  std::string name = "cluster";
  std::string out = "cluster.toml";
  std::uint16_t port = 7400;
  bool force = false;
  bool no_keys = false;
  bool scripts = false;
  bool probe = false;
  remote_options remote;
};

/// Where schedulers tell a job its hosts.
struct scheduler_variable {
  const char* name;
  bool names_a_file; ///< a host per line; else a list
};
constexpr std::array<scheduler_variable, 5> scheduler_variables = {{{"SLURM_JOB_NODELIST", false},
                                                                    {"PBS_NODEFILE", true},
                                                                    {"LSB_DJOB_HOSTFILE", true},
                                                                    {"PE_HOSTFILE", true},
                                                                    {"OAR_NODEFILE", true}}};

host_list read_host_file(const std::string& path) {
  std::string text;
  if (auto problem = storage::read_file(path, hostfile_limit_bytes, text); !problem.empty())
    return {.hosts = {}, .problem = std::move(problem)};
  auto listed = parse_hostfile(text);
  if (!listed.problem.empty())
    listed.problem = path + ": " + listed.problem;
  return listed;
}

host_list read_scheduler(std::span<const scheduler_variable> variables) {
  for (const auto& each : variables)
    if (const char* value = std::getenv(each.name)) {
      auto listed = each.names_a_file ? read_host_file(value) : parse_host_list(value);
      if (!listed.problem.empty())
        listed.problem = fmt::format("{}: {}", each.name, listed.problem);
      return listed;
    }
  return {.hosts = {},
          .problem = fmt::format("there is no {}; run it in an allocation or a job",
                                 listed(variables, &scheduler_variable::name))};
}

host_list read_hosts(const init_arguments& arguments) {
  if (!arguments.hosts.empty()) {
    auto listed = parse_host_list(arguments.hosts);
    if (!listed.problem.empty())
      listed.problem = "--hosts: " + listed.problem;
    return listed;
  }
  return !arguments.hostfile.empty() ? read_host_file(arguments.hostfile)
                                     : read_scheduler(std::span(scheduler_variables).first(arguments.slurm ? 1 : 5));
}

constexpr auto built_in_training =
    "model = \"lenet\"                # or trainer = \"client\" for programs of your own, as init --scripts writes it\n"
    "dataset = \"fashion-mnist\"      # at the same path on every host\n";
constexpr auto training_of_scripts =
    "trainer = \"client\"             # PyTorch or C++ programs of your own; built-in models need dynamix-trainer\n";

/// What this host can run. With `keys` naming the directory beside it. `machines`: of the hosts, where they were asked.
std::string as_file(const init_arguments& arguments, const std::vector<listed_host>& hosts, bool keys,
                    const std::vector<probed_machine>& machines = {}) {
  const auto policy = find_shipped("policies/ppo.dynamix");
  const bool trains = trainer_is_installed();
  auto text = fmt::format(
      R"(# Every field that is not given here has the default of docs/cluster-file.md; `dynamix-node check --cluster {0}`
# prints the plan. The same file goes to every host.

[cluster]
name = {1}

[training]
{2}
[batch]                        # of each worker
initial = 64
lowest = 8
highest = 1024

[arbitrator]
)",
      arguments.out, settings::quoted(arguments.name),
      trains && !arguments.scripts ? built_in_training : training_of_scripts);
  if (policy.empty())
    text += "policy = \"goodput\"\n";
  else
    text +=
        fmt::format(R"(policy = "ppo"
policy_file = {}   # read on the arbitrator's host
mode = {:<23} # {}

[ppo]                          # as the policy was trained
discount = 0.3
gae_lambda = 0.9
entropy_coefficient = 0.0005
)",
                    settings::quoted(policy), trains ? "\"train\"" : "\"infer\"",
                    trains ? "learn while deciding; \"infer\" only decides" : "\"train\" needs dynamix-trainer, too");
  if (keys)
    text +=
        "\n[security]\nkeys = \"keys\"                  # each host has its own there, beside its copy of this file\n";
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    text += "\n[[host]]\n";
    if (!machines.empty())
      text += machines[i].found.empty() ? "# did not answer: " + machines[i].problem + "\n"
                                        : "# " + machines[i].found + "\n";
    text += fmt::format("name = {}\naddress = {}\nport = {}\n{}", settings::quoted(hosts[i].name),
                        settings::quoted(hosts[i].address), arguments.port,
                        i == 0 ? "roles = [\"worker\", \"arbitrator\"]\n" : "");
  }
  return text;
}

/// Tells of each host what it has answered, or that it has not.
std::vector<probed_machine> probe(const init_arguments& arguments, const cluster::cluster_file& file,
                                  command_context& context) {
  live_output live(context.out, output_style::detect());
  auto machines = probe_machines(arguments.remote, file.hosts, [&](std::size_t answered) {
    live.progress(fmt::format("asked {} of {} hosts", answered, file.hosts.size()));
  });
  for (std::size_t i = 0; i < machines.size(); ++i)
    if (machines[i].found.empty())
      live.problem(fmt::format("warning: {} did not answer: {}", file.hosts[i].name, machines[i].problem));
    else
      live.print(file.hosts[i].name + ": " + machines[i].found);
  return machines;
}

bool is_open(const cluster::cluster_file& file) {
  return std::ranges::any_of(file.hosts,
                             [&](const auto& host) { return !cluster::refuse_listen(file, host, false).empty(); });
}

void tell_next(const init_arguments& arguments, const cluster::cluster_file& made, const std::string& keys,
               std::ostream& out) {
  const auto file = shell_quoted(arguments.out);
  const bool here =
      std::ranges::all_of(made.hosts, [](const auto& host) { return cluster::is_loopback(host.address); });
  out << fmt::format("\nNext: say in it what is trained, then\n    dynamix-node check --cluster {0}\n"
                     "    dynamix-node {1} --cluster {0}{2}\n",
                     file, here ? "local" : "launch", here ? "" : "      # by ssh");
  if (here)
    return;
  out << fmt::format("or copy it to every host, with the data{}, and start on each\n",
                     keys.empty() ? "" : fmt::format(" and {}/hosts/NAME ({}/README.txt)", keys, keys));
  const auto flag = keys.empty() && is_open(made) ? " --insecure" : "";
  for (std::size_t i = 0; i < std::min(commands_shown, made.hosts.size()); ++i)
    out << fmt::format("    dynamix-node run --cluster {} --name {}{}\n", file, made.hosts[i].name, flag);
  if (made.hosts.size() > commands_shown)
    out << fmt::format("    ... and so on for {} more\n", made.hosts.size() - commands_shown);
}

int init(const init_arguments& arguments, command_context& context) {
  if (!arguments.hosts.empty() + !arguments.hostfile.empty() + arguments.slurm + arguments.from_env != 1)
    return refuse(context.err, "init needs one of --hosts LIST, --hostfile FILE, --slurm and --from-env");
  const auto listed = read_hosts(arguments);
  if (!listed.problem.empty())
    return refuse(context.err, listed.problem);
  auto parsed = cluster::parse_cluster_text(as_file(arguments, listed.hosts, false), arguments.out);
  if (!parsed.errors.empty())
    return refuse(context.err, "this makes no cluster file: " + parsed.errors.front().message);
  std::error_code ignored;
  if (!arguments.force && std::filesystem::exists(arguments.out, ignored))
    return refuse(context.err, arguments.out + " is there already; --force replaces it, --out names another file");

  const auto machines = arguments.probe ? probe(arguments, parsed.file, context) : std::vector<probed_machine>();
  const bool with_keys = is_open(parsed.file) && !arguments.no_keys;
  const auto keys = with_keys ? cluster::resolve_path(parsed.file, "keys") : "";
  const bool made = with_keys && !std::filesystem::exists(keys, ignored);
  std::vector<std::string> issued; // where the keys of other hosts are there
  auto problem = storage::write_output(arguments.out, as_file(arguments, listed.hosts, with_keys, machines));
  if (problem.empty() && made)
    problem = links::make_keys(keys, key_request_of(parsed.file));
  for (const auto& host : parsed.file.hosts)
    if (problem.empty() && with_keys && !made &&
        !std::filesystem::exists(links::host_directory(keys, host.name), ignored)) {
      problem = links::issue_keys(keys, host.name, key_request_of(parsed.file));
      issued.push_back(host.name);
    }
  if (!problem.empty())
    return fail(context.err, problem);
  for (const auto& words : listed.left_aside)
    context.err << fmt::format("warning: {}: {} is left aside\n", arguments.hostfile, words);
  for (const auto& name : listed.again)
    context.err << fmt::format("warning: {} is listed more than once, and is one host\n", name);
  context.out << fmt::format("{}: {} host{}, {} arbitrates\n", arguments.out, listed.hosts.size(),
                             listed.hosts.size() == 1 ? "" : "s", listed.hosts.front().name);
  if (with_keys)
    context.out << fmt::format("{}: {}\n", keys,
                               made             ? "host keys"
                               : issued.empty() ? "was there already, and is used as it is"
                                                : "was there already; new keys for " + dynamix::node::listed(issued));
  tell_next(arguments, parsed.file, keys, context.out);
  return exit_done;
}

} // namespace

void add_init(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<init_arguments>();
  auto* command =
      app.add_subcommand("init", "Write a cluster file, with keys, for the hosts of a list, a host file or a job");
  command->add_option("--hosts", arguments->hosts,
                      "Names between commas, also node[01-16], with =ADDRESS where it differs");
  command->add_option("--hostfile", arguments->hostfile,
                      "File with a host per line, as MPI's programs read it (slots are ignored)");
  command->add_flag("--slurm", arguments->slurm, "The nodes of this Slurm allocation (SLURM_JOB_NODELIST)");
  command->add_flag("--from-env", arguments->from_env,
                    "The hosts of the job that this is part of: Slurm, PBS, LSF, Grid Engine or OAR");
  command->add_option("--name", arguments->name, "Name of the cluster")->capture_default_str();
  command->add_option("--port", arguments->port, "Port of every host")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  command->add_option("--out", arguments->out, "File to write")->capture_default_str();
  command->add_flag("--force", arguments->force, "Replace the file where there is one");
  command->add_flag("--no-keys", arguments->no_keys,
                    "Make no keys for hosts beyond loopback; whoever reaches a port can then take over or stop a run");
  command->add_flag("--scripts", arguments->scripts,
                    "For training scripts of your own, where what trains built-in models is installed, too");
  command->add_flag("--probe", arguments->probe,
                    "Ask each host by ssh what it has (doctor) and how fast it is (profile), and write that beside it");
  add_reach(*command, arguments->remote);
  add_work(*command, context, arguments, init);
}

} // namespace dynamix::node
