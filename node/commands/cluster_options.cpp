#include "node/commands/cluster_options.hpp"

#include "node/commands/command.hpp"
#include "node/experiments/comparison_inputs.hpp"
#include "node/experiments/policy_choice.hpp"
#include "node/launch/client_cluster.hpp"
#include "node/launch/remote_host.hpp"
#include "node/launch/shipped_files.hpp"
#include "node/reports/text.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <thread>

namespace dynamix::node {
namespace {

/// Empty when the directory cannot be read.
std::vector<std::string> cluster_files_in(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    if (entry.path().extension() == ".toml")
      found.push_back(entry.path().string());
  std::ranges::sort(found);
  return found;
}

/// What a cluster file without `[simulation]` could name.
void tell_shipped(std::ostream& err) {
  for (const char* kind : {"workloads", "profiles"})
    if (const auto directory = find_shipped(kind); !directory.empty())
      err << fmt::format("{} come with the program in {}: {}\n", kind, directory,
                         listed(cluster_files_in(directory),
                                [](const auto& path) { return std::filesystem::path(path).stem().string(); }));
}

std::optional<cluster::cluster_file>
take_changed(cluster::parse_result parsed, const std::vector<cluster::field_change>& changes, std::ostream& err) {
  for (const auto& error : parsed.errors)
    refuse_at(err, error);
  if (!parsed.errors.empty() || !change_cluster_file(parsed.file, changes, err))
    return std::nullopt;
  return std::move(parsed.file);
}

} // namespace

void add_set(CLI::App& command, std::vector<std::string>& set) {
  command
      .add_option(
          "--set", set,
          "Overrides the file's value, as in --set training.epochs=2 or --set hosts.ada.compute_slowdown=2; may "
          "be given again")
      ->type_name("SECTION.FIELD=VALUE")
      ->allow_extra_args(false);
}

void add_comparison_options(CLI::App& command, compare_arguments& arguments) {
  arguments.jobs = std::max(1U, std::thread::hardware_concurrency());
  command.add_option("--jobs", arguments.jobs, "Threads for what is simulated")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_set(command, arguments.set);
  command.add_flag("--insecure", arguments.insecure,
                   "Make no keys for the runs: hosts talk in the clear, to whoever reaches their ports");
  command.add_flag("--quiet", arguments.quiet, "No progress");
}

void add_reach(CLI::App& command, remote_options& remote) {
  command.add_option("--ssh", remote.ssh, "How hosts are reached: ssh and its options, separated by spaces")
      ->capture_default_str();
  command.add_option("--program", remote.program, "dynamix-node on the hosts")->capture_default_str();
}

std::vector<cluster::field_change> changes_of(const std::vector<std::string>& set,
                                              std::initializer_list<field_option> options) {
  std::vector<cluster::field_change> changes;
  for (const auto& text : set)
    changes.push_back(cluster::parse_change(text));
  for (const auto& [option, field, value] : options)
    if (!value.empty())
      changes.push_back({option, field, value});
  return changes;
}

void add_run_changes(CLI::App& command, run_changes& changes) {
  command.add_option("--policy", changes.policy, "Overrides the file's arbitrator.policy");
  command.add_option("--seed", changes.seed, "Overrides the file's cluster.seed");
  command.add_option("--epochs", changes.epochs, "Overrides the file's training.epochs");
  add_set(command, changes.set);
}

std::vector<cluster::field_change> changes_of(const run_changes& changes) {
  return changes_of(changes.set, {{"--policy", "arbitrator.policy", changes.policy},
                                  {"--seed", "cluster.seed", changes.seed},
                                  {"--epochs", "training.epochs", changes.epochs}});
}

bool change_cluster_file(cluster::cluster_file& file, const std::vector<cluster::field_change>& changes,
                         std::ostream& err) {
  const auto errors = cluster::change_fields(file, changes);
  for (const auto& error : errors)
    refuse(err, cluster::to_string(error));
  if (errors.empty() && file.set_by.contains("arbitrator.policy") && !file.set_by.contains("arbitrator.policy_file"))
    drop_foreign_parameters(file);
  return errors.empty();
}

std::optional<cluster::cluster_file> load_cluster_file(const std::string& path, std::ostream& err,
                                                       const std::vector<cluster::field_change>& changes) {
  return take_changed(cluster::read_cluster_file(path), changes, err);
}

std::optional<cluster::cluster_file> load_client_cluster(std::uint32_t workers, std::ostream& err,
                                                         const std::vector<cluster::field_change>& changes) {
  return take_changed(cluster::parse_cluster_text(make_client_cluster(workers), fmt::format("--workers {}", workers)),
                      changes, err);
}

int load_cluster_files(const std::vector<std::string>& paths, const std::vector<cluster::field_change>& changes,
                       std::vector<cluster::cluster_file>& files, std::ostream& err) {
  std::vector<std::string> found;
  for (const auto& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      found.push_back(path);
      continue;
    }
    const auto below = cluster_files_in(path);
    if (below.empty())
      return refuse(err, path + " holds no cluster file (*.toml)");
    found.insert(found.end(), below.begin(), below.end());
  }
  int code = exit_done;
  for (const auto& path : found) {
    auto file = load_cluster_file(path, err);
    if (!file) {
      code = exit_refused;
      continue;
    }
    if (!change_cluster_file(*file, changes, err))
      return exit_refused; // the same for the others
    files.push_back(std::move(*file));
  }
  return code;
}

int load_scenarios(const std::vector<std::string>& paths, const std::vector<cluster::field_change>& changes,
                   std::vector<simulator::scenario>& scenarios, std::ostream& err) {
  std::vector<cluster::cluster_file> files;
  int code = load_cluster_files(paths, changes, files, err);
  for (const auto& file : files)
    for (const auto& error : simulator::load_scenario(file, scenarios.emplace_back()))
      code = refuse_at(err, error);
  if (std::ranges::any_of(files, [](const auto& file) { return file.simulation.workload.empty(); }))
    tell_shipped(err);
  return code;
}

} // namespace dynamix::node
