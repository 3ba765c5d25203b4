#include "cluster/cluster_file.hpp"
#include "node/commands/command.hpp"
#include "node/launch/host_list.hpp"
#include "node/launch/shipped_files.hpp"
#include "node/reports/text.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

constexpr std::size_t hostfile_limit_bytes = std::size_t{1} << 20;
constexpr std::size_t commands_shown = 4;

struct init_arguments {
  std::string hosts;
  std::string hostfile;
  bool slurm = false;
  std::string name = "cluster";
  std::string out = "cluster.toml";
  std::uint16_t port = 7400;
  bool force = false;
};

host_list read_hosts(const init_arguments& arguments) {
  if (!arguments.hosts.empty())
    return parse_host_list(arguments.hosts);
  if (arguments.slurm) {
    const char* nodes = std::getenv("SLURM_JOB_NODELIST");
    if (nodes == nullptr)
      return {.hosts = {}, .problem = "SLURM_JOB_NODELIST is not set; run it in an allocation (salloc, sbatch)"};
    return parse_host_list(nodes);
  }
  std::string text;
  if (auto problem = storage::read_file(arguments.hostfile, hostfile_limit_bytes, text); !problem.empty())
    return {.hosts = {}, .problem = std::move(problem)};
  return parse_hostfile(text);
}

std::string quoted(const std::string& text) {
  std::string found = "\"";
  for (const char letter : text)
    found += letter == '"' || letter == '\\' ? std::string{'\\', letter} : std::string(1, letter);
  return found + "\"";
}

std::string as_file(const init_arguments& arguments, const std::vector<listed_host>& hosts) {
  const auto policy = find_shipped("policies/ppo.dynamix");
  auto text = fmt::format(
      R"(# Every field that is not given here has the default of docs/cluster-file.md; `dynamix-node check --cluster {0}`
# prints the plan. The same file goes to every host.

[cluster]
name = {1}

[training]
model = "lenet"                # or trainer = "client" for PyTorch or C++ programs of your own
dataset = "fashion-mnist"      # at the same path on every host

[batch]                        # of each worker
initial = 64
lowest = 8
highest = 1024

[arbitrator]
)",
      arguments.out, quoted(arguments.name));
  if (policy.empty())
    text += "policy = \"goodput\"\n";
  else
    text += fmt::format(R"(policy = "ppo"
policy_file = {}   # read on the arbitrator's host
mode = "train"                 # learn while deciding; "infer" only decides

[ppo]                          # as the policy was trained
discount = 0.3
gae_lambda = 0.9
entropy_coefficient = 0.0005
)",
                        quoted(policy));
  for (std::size_t i = 0; i < hosts.size(); ++i)
    text +=
        fmt::format("\n[[host]]\nname = {}\naddress = {}\nport = {}\n{}", quoted(hosts[i].name),
                    quoted(hosts[i].address), arguments.port, i == 0 ? "roles = [\"worker\", \"arbitrator\"]\n" : "");
  return text;
}

int init(const init_arguments& arguments, command_context& context) {
  if (arguments.hosts.empty() + arguments.hostfile.empty() + !arguments.slurm != 2)
    return refuse(context.err, "init needs one of --hosts LIST, --hostfile FILE and --slurm");
  const auto listed = read_hosts(arguments);
  if (!listed.problem.empty())
    return refuse(context.err, (arguments.slurm           ? "SLURM_JOB_NODELIST: "
                                : arguments.hosts.empty() ? arguments.hostfile + ": "
                                                          : "--hosts: ") +
                                   listed.problem);
  const auto text = as_file(arguments, listed.hosts);
  const auto parsed = cluster::parse_cluster_text(text, arguments.out);
  if (!parsed.errors.empty())
    return refuse(context.err, "this makes no cluster file: " + parsed.errors.front().message);
  std::error_code ignored;
  if (!arguments.force && std::filesystem::exists(arguments.out, ignored))
    return refuse(context.err, arguments.out + " is there already; --force replaces it, --out names another file");
  if (const auto problem = storage::write_file_atomically(arguments.out, text); !problem.empty()) {
    context.err << "dynamix-node: error: " << problem << "\n";
    return exit_failed;
  }
  const auto file = shell_quoted(arguments.out);
  const bool open = std::ranges::any_of(
      parsed.file.hosts, [&](const auto& host) { return !cluster::refuse_listen(parsed.file, host, false).empty(); });
  context.out << fmt::format(
      "{}: {} hosts, {} arbitrates\n\nNext: say in it what is trained, then\n"
      "    dynamix-node check --cluster {}\nand copy it to every host, with the data, and start on each\n",
      arguments.out, listed.hosts.size(), listed.hosts.front().name, file);
  const auto directory = (std::filesystem::path(arguments.out).parent_path() / "keys").string();
  const auto keys = open ? " --keys " + shell_quoted(directory) : "";
  for (std::size_t i = 0; i < std::min(commands_shown, listed.hosts.size()); ++i)
    context.out << fmt::format("    dynamix-node run --cluster {} --name {}{}\n", file, listed.hosts[i].name, keys);
  if (listed.hosts.size() > commands_shown)
    context.out << fmt::format("    ... and so on for {} more\n", listed.hosts.size() - commands_shown);
  if (open)
    context.out << fmt::format(
        "Before that, here:\n    dynamix-node keys init --cluster {}\nmakes {}, with which hosts prove to each other "
        "who they are; README.txt in it\nsays what to copy to which. With --insecure in place of --keys nothing is "
        "proven.\n",
        file, directory);
  return exit_done;
}

} // namespace

void add_init(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<init_arguments>();
  auto* command =
      app.add_subcommand("init", "Write a cluster file for the hosts of a list, a host file or a Slurm job");
  command->add_option("--hosts", arguments->hosts,
                      "Names between commas, also node[01-16], with =ADDRESS where it differs");
  command->add_option("--hostfile", arguments->hostfile,
                      "A host a line, as MPI's programs read it (slots are left aside)");
  command->add_flag("--slurm", arguments->slurm, "The nodes of this Slurm allocation (SLURM_JOB_NODELIST)");
  command->add_option("--name", arguments->name, "Of the cluster")->capture_default_str();
  command->add_option("--port", arguments->port, "Of every host")->check(CLI::Range(1, 65535))->capture_default_str();
  command->add_option("--out", arguments->out, "File to write")->capture_default_str();
  command->add_flag("--force", arguments->force, "Replace the file where there is one");
  command->callback(
      [arguments, &context] { context.work = [arguments, &context] { return init(*arguments, context); }; });
}

} // namespace dynamix::node
