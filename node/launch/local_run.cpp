#include "node/launch/local_run.hpp"

#include "dashboard/dashboard.hpp"
#include "node/launch/child_process.hpp"
#include "node/launch/keys.hpp"
#include "node/launch/port_check.hpp"
#include "node/reports/report.hpp"
#include "node/reports/results.hpp"
#include "telemetry/cgroup.hpp"
#include "trainer/session.hpp"

#include <filesystem>
#include <fmt/core.h>

namespace dynamix::node {

std::vector<cluster::file_error> check_hosts(const cluster::cluster_file& file, bool insecure) {
  std::vector<cluster::file_error> errors;
  for (std::size_t i = 0; i < file.hosts.size(); ++i)
    if (const auto reason = cluster::refuse_listen(file, file.hosts[i], insecure); !reason.empty())
      errors.push_back(cluster::error_at(file, fmt::format("host[{}].address", i), reason));
  if (cluster::knows_truth(file.arbitrator.policy))
    errors.push_back(
        cluster::error_at(file, "arbitrator.policy",
                          fmt::format("arbitrator.policy is \"{}\", which knows the truth: only `simulate` and "
                                      "`compare --simulate` have it",
                                      cluster::to_string(file.arbitrator.policy))));
  return errors;
}

std::vector<cluster::file_error> check_machine(const cluster::cluster_file& file, bool insecure) {
  if (own_program().empty())
    return {{.file = own_program_link, .message = own_program_missing}};
  auto errors = check_hosts(file, insecure);
  if (!errors.empty())
    return errors;
  errors = check_ports(file);
  if (const auto reason = dashboard::refuse_access(file); !reason.empty())
    errors.push_back(cluster::error_at(file, "dashboard.token_file", reason));
  if (file.training.trainer == cluster::trainer_kind::client)
    return errors;
  if (const auto found = trainer::preflight(file); !found.message.empty())
    errors.push_back(cluster::error_at(file, found.field, found.message));
  return errors;
}

std::string prepare_directory(const run_directory& run, const cluster::cluster_file& file) {
  std::string problem = run.create();
  if (problem.empty())
    problem = keep_cluster_copy(run, file);
  for (const auto* worker : file.workers()) {
    std::error_code ignored; // what an earlier life of the run said last is no longer the last
    std::filesystem::remove(run.worker(worker->name), ignored);
  }
  return problem;
}

launch_options local_options(const cluster::cluster_file& file, const run_directory& run) {
  return {.file = file, .run = run, .program = own_program()};
}

local_run run_locally(launch_options options, live_output& live, const std::stop_token& stop) {
  const bool make_keys = options.make_keys && options.file.security.keys.empty();
  if (auto problem = make_keys ? make_run_keys(options.file, options.run, options.keys) : ""; !problem.empty())
    return {.launched = {}, .summary = {}, .problem = std::move(problem)};
  local_run run{.launched = launch(options, live, stop), .summary = {}, .problem = {}};
  if (make_keys)
    remove_run_keys(options.run);
  telemetry::remove_abandoned_cgroups(); // of hosts that were killed
  const auto& launched = run.launched;
  run.problem = write_results(
      options.run, {.warnings = launched.warnings, .restarts = launched.restarts, .given_up = launched.given_up},
      launched.error, run.summary);
  return run;
}

void print_results(const run_summary& summary, const run_directory& run, live_output& live) {
  live.heading("\nworkers");
  live.print(workers_table(summary));
  live.heading("result");
  live.print(result_block(summary));
  live.print("run directory: " + run.path());
}

} // namespace dynamix::node
