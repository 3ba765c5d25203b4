#include "node/launch/local_run.hpp"

#include "dashboard/dashboard.hpp"
#include "messages/leave.hpp"
#include "node/commands/command.hpp"
#include "node/commands/command_line.hpp"
#include "node/launch/child_process.hpp"
#include "node/launch/keys.hpp"
#include "node/launch/port_check.hpp"
#include "node/launch/run_lock.hpp"
#include "node/reports/report.hpp"
#include "node/reports/results.hpp"
#include "node/reports/run_records.hpp"
#include "node/reports/text.hpp"
#include "node/training/loaded_trainer.hpp"
#include "telemetry/cgroup.hpp"

#include <filesystem>
#include <fmt/core.h>
#include <ostream>
#include <utility>

namespace dynamix::node {
namespace {

/// "page http://127.0.0.1:8080/", or why there is none; empty where the file wants none. Before the hosts are started.
std::string page_text(const cluster::cluster_file& file) {
  const auto listen = cluster::parse_listen_address(file.dashboard.listen);
  if (!listen)
    return "";
  if (!can_listen(listen->address, listen->port))
    return "no page: " + file.dashboard.listen + " is in use (--set dashboard.listen=ADDRESS:PORT chooses another)";
  return "page " + dashboard::url_of(file);
}

/// Whether somebody would see the page at its address now.
bool page_answers(const cluster::cluster_file& file) {
  const auto listen = cluster::parse_listen_address(file.dashboard.listen);
  return listen && answers(listen->address, listen->port);
}

} // namespace

std::vector<cluster::file_error> check_hosts(const cluster::cluster_file& file) {
  std::vector<cluster::file_error> errors;
  if (cluster::knows_truth(file.arbitrator.policy))
    errors.push_back(
        cluster::error_at(file, "arbitrator.policy",
                          fmt::format("arbitrator.policy is \"{}\", which knows the truth: only `simulate` and "
                                      "`compare --simulate` have it",
                                      cluster::to_string(file.arbitrator.policy))));
  return errors;
}

namespace {

std::vector<cluster::file_error> check_file(const cluster::cluster_file& file) {
  if (own_program().empty())
    return {{.file = own_program_link, .message = own_program_missing}};
  auto errors = check_hosts(file);
  if (!errors.empty())
    return errors;
  if (const auto refused = dashboard::refuse_access(file))
    errors.push_back(cluster::error_at(file, refused.field, refused.reason));
  if (file.training.trainer == cluster::trainer_kind::client)
    return errors;
  const auto& loaded = own_trainer();
  if (loaded.module == nullptr)
    errors.push_back(cluster::error_at(file, "training.trainer", loaded.problem));
  else if (const auto found = loaded.module->preflight(file); !found.message.empty())
    errors.push_back(cluster::error_at(file, found.field, found.message));
  return errors;
}

/// The hosts started here read it: also the values in which files of one cluster may differ, as a resumed run changes
/// them.
std::string write_resolved(const run_directory& run, const cluster::cluster_file& file) {
  const auto before = cluster::read_cluster_file(run.cluster_file());
  return before.errors.empty() && cluster::to_toml(before.file) == cluster::to_toml(file)
             ? ""
             : write_cluster_copy(run, file);
}

} // namespace

int check_machine(const cluster::cluster_file& file, std::ostream& err) {
  auto errors = check_file(file);
  const int code = errors.empty() ? exit_failed : exit_refused;
  if (errors.empty())
    errors = check_ports(file);
  for (const auto& error : errors)
    refuse_at(err, error);
  return errors.empty() ? exit_done : code;
}

std::string prepare_directory(const run_directory& run, const cluster::cluster_file& file) {
  std::string problem = run.create();
  if (problem.empty())
    problem = lock_run(run);
  if (problem.empty())
    problem = write_resolved(run, file);
  if (!problem.empty())
    return problem;
  for (const auto* member : file.members()) {
    std::error_code ignored; // what an earlier life of the run said last is no longer the last
    std::filesystem::remove(run.worker(member->name), ignored);
  }
  return "";
}

std::string refuse_finished(const run_directory& run, const cluster::cluster_file& file) {
  const auto before = cluster::read_cluster_file(run.cluster_file());
  if (file.training.trainer == cluster::trainer_kind::client || !before.errors.empty() ||
      before.file.training.epochs != file.training.epochs ||
      before.file.training.target_accuracy != file.training.target_accuracy)
    return "";
  for (const auto* member : file.members())
    if (const auto said = read_worker_file(run.worker(member->name));
        said && messages::tells_completion(said->farewell))
      return fmt::format("{} has come to its end ({}); give it more to do with --epochs, or see it with report",
                         run.path(), printable(said->farewell.reason));
  return "";
}

launch_options local_options(const cluster::cluster_file& file, const run_directory& run) {
  return {.file = file, .run = run, .program = own_program()};
}

void tell_page(launch_options& options, live_output& live, const std::string& prefix) {
  const auto text = page_text(options.file);
  if (!text.starts_with("page "))
    return text.empty() ? void() : live.print(prefix + text);
  options.page = prefix + text;
  options.page_answers = [&file = options.file] { return page_answers(file); };
}

local_run run_locally(launch_options options, live_output& live, const std::stop_token& stop) {
  const bool make_keys = options.file.security.keys.empty() && !options.insecure && !options.file.insecure;
  run_key_guard guard;
  auto problem = make_keys ? guard.begin(options.run) : refuse_replicas_without_keys(options.file);
  if (problem.empty() && make_keys)
    problem = make_run_keys(options.file, options.run, options.keys);
  if (!problem.empty())
    return {.launched = {}, .summary = {}, .problem = std::move(problem)};
  auto launched = launch(options, live, stop);
  guard.end();
  telemetry::remove_abandoned_cgroups(); // of hosts that were killed
  return sum_up(options.run, std::move(launched));
}

local_run sum_up(const run_directory& run, launch_outcome launched) {
  local_run made{.launched = std::move(launched), .summary = {}, .problem = {}};
  const auto& said = made.launched;
  made.problem = write_results(run, {.warnings = said.warnings, .restarts = said.restarts, .given_up = said.given_up},
                               said.error, made.summary);
  return made;
}

int report_end(const local_run& made, const run_directory& run, bool json, const std::string& hint, live_output& live,
               std::ostream& out, std::ostream& err) {
  if (!made.problem.empty())
    err << "dynamix-node: error: " << made.problem << "\n";
  if (json) {
    out << workers_json(made.summary);
  } else if (made.summary.samples == 0) {
    live.print("nothing was trained; run directory: " + run.path());
  } else {
    live.heading("\nworkers");
    live.print(workers_table(made.summary));
    live.heading("result");
    live.print(result_block(made.summary));
    live.print("run directory: " + run.path());
  }
  if (!made.launched.error.empty())
    err << "dynamix-node: error: " << made.launched.error << "\n" << made.launched.last_words << hint;
  else if (made.launched.stopped)
    err << "dynamix-node: stopped before the end. " << hint;
  else if (!made.summary.succeeded)
    err << "dynamix-node: error: " << made.summary.reason << "\n" << hint;
  else if (!made.completed())
    err << "dynamix-node: error: training was ended before its end: " << made.summary.reason << "\n" << hint;
  return made.exit();
}

} // namespace dynamix::node
