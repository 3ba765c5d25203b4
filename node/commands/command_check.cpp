#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/launch/keys.hpp"
#include "node/launch/port_check.hpp"
#include "node/launch/shipped_files.hpp"
#include "node/training/loaded_trainer.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

/// What is allowed, but may surprise whoever runs the file.
std::vector<cluster::file_error> cautions(const cluster::cluster_file& file) {
  std::vector<cluster::file_error> found;
  for (std::size_t i = 0; i < file.hosts.size(); ++i)
    if (const auto reason = cluster::refuse_listen(file, file.hosts[i], false); !reason.empty())
      found.push_back(cluster::error_at(file, "host[" + std::to_string(i) + "].address", reason));
  for (std::size_t i = 0; i < file.hosts.size(); ++i)
    if (const auto caution = loopback_caution(file, file.hosts[i], addresses_of(file.hosts[i].address));
        !caution.empty())
      found.push_back(cluster::error_at(file, "host[" + std::to_string(i) + "].address", caution));
  const auto& arbitrator = file.arbitrator;
  if (arbitrator.mode == cluster::policy_mode::infer && cluster::has_parameters(arbitrator.policy) &&
      arbitrator.policy_file.empty() && find_default_parameters(file).empty())
    found.push_back(cluster::error_at(
        file, "arbitrator.mode",
        "arbitrator.mode is \"infer\" without a policy_file: the policy stays as random as its seed"));
  const auto listen = cluster::parse_listen_address(file.dashboard.listen);
  if (listen && !cluster::is_loopback(listen->address) && file.dashboard.tls == cluster::page_tls::off)
    found.push_back(cluster::error_at(file, "dashboard.listen",
                                      "the page at " + file.dashboard.listen +
                                          " goes in plain HTTP: whoever reads the network reads its token; "
                                          "dashboard.tls encrypts it"));
  if (!file.secret_file.empty())
    found.push_back(cluster::error_at(file, "cluster.secret_file",
                                      "cluster.secret_file is ignored; leave it out: replicas speak by keys alone, as "
                                      "security.keys names or local and launch make them"));
  for (std::size_t i = 0; i < file.hosts.size(); ++i)
    if (file.hosts[i].replica_port != 0)
      found.push_back(cluster::error_at(file, "host[" + std::to_string(i) + "].replica_port",
                                        "host.replica_port is ignored; leave it out: replicas are reached at "
                                        "host.port"));
  for (const auto& warning : key_warnings(file))
    found.push_back(cluster::error_at(file, "security.keys", warning));
  return found;
}

/// What this machine can say of the file's model, data and paths, where a host of the file is on it. Adds to
/// `warnings`; returns what it cannot say.
std::string look_at_machine(const cluster::cluster_file& file, std::vector<cluster::file_error>& warnings) {
  const bool here =
      std::ranges::any_of(file.hosts, [](const auto& host) { return cluster::is_loopback(host.address); });
  const bool trains = file.training.trainer == cluster::trainer_kind::built_in;
  if (!here)
    return trains ? "data set, model and other paths, since the hosts are other machines"
                  : "paths, since the hosts are other machines";
  if (const auto& policy = file.arbitrator.policy_file;
      !policy.empty() && !std::filesystem::exists(cluster::resolve_path(file, policy)))
    warnings.push_back(cluster::error_at(file, "arbitrator.policy_file", "there is no file " + policy));
  if (!trains)
    return "";
  const auto& loaded = own_trainer();
  if (loaded.module == nullptr)
    return "data set and model: " + loaded.problem;
  if (const auto found = loaded.module->preflight(file); !found.message.empty())
    warnings.push_back(cluster::error_at(file, found.field, found.message));
  return "";
}

struct check_arguments {
  std::string cluster;
  std::vector<std::string> set;
  bool all = false;
  bool json = false;
};

int check(const check_arguments& arguments, command_context& context) {
  const auto file = load_cluster_file(arguments.cluster, context.err, changes_of(arguments.set));
  if (!file)
    return exit_refused;
  auto warnings = cautions(*file);
  const auto unchecked = look_at_machine(*file, warnings);
  if (arguments.json)
    context.out << cluster::describe_plan_json(*file) << "\n";
  else
    context.out << cluster::describe_plan(*file,
                                          arguments.all ? cluster::plan_detail::all : cluster::plan_detail::summary)
                << (unchecked.empty() ? "" : "\nnot checked here: " + unchecked + "\n")
                << (arguments.all ? "" : "\n--all prints every field, and the time-outs.\n");
  for (const auto& caution : warnings)
    context.err << "warning: " << cluster::to_string(caution) << "\n";
  return exit_done;
}

} // namespace

void add_check(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<check_arguments>();
  auto* command = app.add_subcommand("check", "Validate a cluster file and print its plan");
  command->add_option("--cluster", arguments->cluster, "Cluster file")->required();
  add_set(*command, arguments->set);
  command->add_flag("--all", arguments->all, "Print every field, also those that have their defaults");
  command->add_flag("--json", arguments->json, "Print the plan as JSON");
  add_work(*command, context, arguments, check);
}

} // namespace dynamix::node
