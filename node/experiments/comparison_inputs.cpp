#include "node/experiments/comparison_inputs.hpp"

#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/experiments/simulated_run.hpp"
#include "node/launch/local_run.hpp"
#include "node/launch/run_directory.hpp"
#include "node/reports/text.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <ostream>
#include <set>
#include <sstream>

namespace dynamix::node {
namespace {

using cluster::policy_kind;

constexpr const char* default_policies = "static,static-best,lb-bsp,omnilearn,goodput,ppo";

bool is_missing(const std::string& path) {
  std::error_code unreadable; // does not prove that it is not there
  return !path.empty() && !std::filesystem::exists(path, unreadable) && !unreadable;
}

/// Whether one of the paths is not there that this file names for its runs, but for the policy's.
bool misses_path(const cluster::cluster_file& file, bool simulated) {
  const auto missing = [&file](const std::string& path) { return is_missing(cluster::resolve_path(file, path)); };
  if (simulated)
    return missing(file.simulation.workload) || missing(file.simulation.profile) ||
           std::ranges::any_of(file.hosts, [&](const auto& each) { return missing(each.profile); });
  const auto& training = file.training;
  if (training.trainer == cluster::trainer_kind::client)
    return false;
  return missing(training.model.script_path()) ||
         (training.dataset != cluster::dataset_kind::interactions && is_missing(training.data_path));
}

int read_policies(const compare_arguments& arguments, comparison_inputs& inputs, std::ostream& err) {
  std::string names = arguments.policies;
  if (names.empty())
    names = std::string(default_policies) + (arguments.simulate ? ",oracle" : "");
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    auto file = inputs.files.front();
    if (const auto reason = cluster::set_field(file, "arbitrator.policy", name); !reason.empty())
      return refuse(err, "--policies: " + reason);
    const auto policy = file.arbitrator.policy;
    if (cluster::knows_truth(policy) && !arguments.simulate)
      return refuse(err, "--policies: an oracle knows what only a simulation knows; add --simulate");
    if (std::ranges::count(inputs.policies, policy) == 0)
      inputs.policies.push_back(policy);
  }
  return exit_done;
}

int check_files(const comparison_inputs& inputs, std::ostream& err) {
  std::set<std::string> names;
  for (const auto& file : inputs.files) {
    if (!names.insert(file.name).second)
      return refuse_at(err, cluster::error_at(file, "cluster.name",
                                              "cluster.name is \"" + file.name +
                                                  "\", as in another of the files; their results would share a place"));
    if (file.training.target_accuracy == 0)
      return refuse_at(err, cluster::error_at(file, "training.target_accuracy",
                                              "training.target_accuracy is 0; compare needs a target to measure the "
                                              "time to, also by --set training.target_accuracy=VALUE"));
  }
  return exit_done;
}

/// Of the learned policies: that each finds its parameters.
int check_parameters(comparison_inputs& inputs, std::ostream& err) {
  int code = exit_done;
  std::set<policy_kind> untrained;
  for (std::size_t i = 0; i < inputs.files.size(); ++i)
    for (const auto policy : inputs.policies) {
      if (!cluster::has_parameters(policy))
        continue;
      const auto file = inputs.plan(i, policy, 0, 0).file;
      std::vector<std::uint8_t> parameters;
      if (const auto refused = load_parameters(file, parameters)) {
        code = refuse_at(err, *refused);
        inputs.path_missing |= is_missing(cluster::resolve_path(file, file.arbitrator.policy_file));
      }
      if (cluster::has_parameters(policy) && file.arbitrator.policy_file.empty() &&
          file.arbitrator.mode == cluster::policy_mode::infer && untrained.insert(policy).second)
        err << "dynamix-node: warning: " << cluster::to_string(policy)
            << " has no policy file of its own and arbitrator.mode is \"infer\": it stays as random as its seed\n";
    }
  return code;
}

int check_place(const compare_arguments& arguments, comparison_inputs& inputs, std::ostream& err) {
  int code = exit_done;
  for (auto& file : inputs.files) {
    if (arguments.simulate) {
      for (const auto& error : simulator::load_scenario(file, inputs.scenarios.emplace_back()))
        code = refuse_at(err, error);
    } else {
      code = std::max(code, check_machine(file, err));
    }
    inputs.path_missing |= code != exit_done && misses_path(file, arguments.simulate);
    cluster::make_paths_absolute(file);
  }
  return code;
}

} // namespace

std::vector<std::uint32_t> comparison_inputs::grid(std::size_t cluster) const {
  const auto& file = files[cluster];
  if (file.arbitrator.static_batch != 0)
    return {file.arbitrator.static_batch};
  return static_batch_grid(file.batch);
}

planned_run comparison_inputs::plan(std::size_t cluster, policy_kind policy, std::uint32_t static_batch,
                                    std::size_t seed) const {
  auto planned = plan_run(files[cluster], policy, static_batch, files[cluster].seed + seed, simulated, out, episodes);
  planned.cluster = cluster;
  return planned;
}

std::string comparison_inputs::title() const {
  const auto names = listed(policies, [](auto policy) { return cluster::to_string(policy); });
  return fmt::format("{}: {} with {}{}{}{}; results go to {}",
                     files.size() == 1 ? files.front().name : fmt::format("{} clusters", files.size()), names, seeds,
                     seeds == 1 ? " seed" : " seeds each", episodes > 1 ? fmt::format(" of {} episodes", episodes) : "",
                     simulated ? ", simulated" : ", trained on this machine", out);
}

std::string comparison_inputs::resume_command(const std::string& command) const {
  return command.find(" --out") == std::string::npos ? command + " --out " + shell_quoted(out) : command;
}

int read_inputs(const compare_arguments& arguments, comparison_inputs& inputs, std::ostream& err) {
  inputs.seeds = arguments.seeds;
  inputs.episodes = arguments.episodes;
  inputs.simulated = arguments.simulate;
  inputs.json = arguments.json;
  int code = load_cluster_files(arguments.clusters, changes_of(arguments.set), inputs.files, err);
  inputs.path_missing = code != exit_done && std::ranges::any_of(arguments.clusters, is_missing);
  if (code == exit_done)
    code = read_policies(arguments, inputs, err);
  if (code == exit_done)
    code = check_files(inputs, err);
  if (code == exit_done)
    code = check_place(arguments, inputs, err);
  if (code == exit_done)
    code = check_parameters(inputs, err);
  if (code != exit_done)
    return code;
  const auto name =
      inputs.files.size() == 1 ? inputs.files.front().name : fmt::format("{}-clusters", inputs.files.size());
  if (arguments.out.empty())
    inputs.default_out = make_default_run("compare-" + name);
  inputs.out = inputs.default_out ? inputs.default_out->path() : arguments.out;
  return exit_done;
}

} // namespace dynamix::node
