#include "ledger/summary.hpp"

#include "cluster/places.hpp"
#include "ledger/json_values.hpp"
#include "ledger/text.hpp"
#include "ledger/warnings.hpp"
#include "messages/leave.hpp"
#include "messages/loss.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace dynamix::ledger {
namespace {

using json = nlohmann::ordered_json;

decision_summary count_decisions(const run_records& records) {
  decision_summary counted{.windows = records.run.totals().decided_windows,
                           .interventions = records.run.totals().intervened_windows,
                           .moves = records.run.totals().moves};
  auto made_for = records.run.decisions().by_host();
  for (const auto& [host, made] : made_for)
    counted.made += made.count;
  for (const auto& farewell : records.farewells) {
    const auto& own = farewell.decisions;
    counted.applied += own.applied;
    counted.late += own.late;
    counted.superseded += own.superseded;
    counted.unapplied += own.unapplied;
    counted.stale_refused += own.stale_refused;
    counted.duplicated += own.duplicated;
    const auto& made = made_for[farewell.host];
    std::uint64_t missing = made.count - std::min(made.count, own.received + own.stale_refused);
    for (const auto& end : made.ends)
      if (const auto by_loss = std::min(missing, end.most); by_loss > 0) {
        missing -= by_loss;
        counted.unapplied_by_loss += by_loss;
        counted.losses[end.ended] += by_loss;
      }
    counted.lost += missing;
  }
  return counted;
}

void count_lives(const run_records& records, const run_observations& observed, run_summary& summary) {
  const auto& run = records.run;
  const auto& totals = run.totals();
  const auto restarted = totals.events.find(messages::name_of(event_kind::restarted));
  summary.started_at = run.starts().empty() ? "" : run.starts().front().started_at;
  for (const auto& start : run.starts())
    if (!start.gradients.empty() && (summary.gradients.empty() || summary.gradients.back() != start.gradients))
      summary.gradients.push_back(start.gradients);
  summary.generations = totals.generations;
  summary.steps_lost = totals.steps_lost;
  summary.policy_version = run.policy_version();
  summary.restarts = (restarted == totals.events.end() ? 0 : restarted->second) + totals.lives - (totals.lives > 0);
  summary.restarts_by_host = observed.restarts;
  for (const auto& [host, times] : observed.restarts)
    if (const auto* known = records.file.find(host); known != nullptr && !known->has(cluster::role::arbitrator))
      summary.restarts += times; // the arbitrator's are lives
}

/// One that ended well, if any did.
const messages::farewell& first_to_tell(const std::vector<messages::farewell>& farewells) {
  const auto well = std::ranges::find_if(farewells, [](const auto& farewell) { return farewell.succeeded; });
  return well == farewells.end() ? farewells.front() : *well;
}

/// How the run ended, by what its workers said last: without those that left or were given up, if others finished.
void judge_end(const run_records& records, const std::set<std::string>& given_up, run_summary& summary) {
  const messages::farewell* failed = nullptr;
  std::set<std::string> accounted = given_up;
  bool finished = false;
  for (const auto& farewell : records.farewells) {
    finished |= farewell.succeeded;
    summary.completed |= messages::tells_completion(farewell);
    if (messages::tells_leave(farewell))
      summary.left.push_back(farewell.host);
    else if (!farewell.succeeded && !given_up.contains(cluster::host_of(farewell.host)) && failed == nullptr)
      failed = &farewell;
    accounted.insert(farewell.host);
  }
  const auto workers = records.file.workers();
  const bool all_left = !workers.empty() && summary.left.size() == workers.size();
  const bool all_said = std::ranges::all_of(workers, [&](const auto* worker) {
    return cluster::is_place(*worker) || accounted.contains(worker->name) ||
           given_up.contains(cluster::host_of(worker->name));
  });
  summary.succeeded = failed == nullptr && all_said && (finished || all_left);
  summary.goes_on = records.farewells.empty();
  if (summary.goes_on)
    summary.reason = no_farewell;
  else if (all_left)
    summary.reason = "all workers have left";
  else
    summary.reason =
        printable((failed != nullptr ? *failed : first_to_tell(records.farewells)).reason, messages::max_text_length);
}

/// Hosts without a worker say it in the ledger.
void add_replicas_left(const run_records& records, run_summary& summary) {
  for (const auto& host : records.run.left())
    if (!records.file.find(host)->has(cluster::role::worker))
      summary.left.push_back(host);
}

void add_overhead(double control, double telemetry, double wall, run_summary& summary) {
  if (wall > 0) {
    summary.control_fraction = control / wall;
    summary.telemetry_fraction = telemetry / wall;
  }
}

/// Of a run that goes on, or was cut short: as far as its windows and evaluations tell.
void add_windows(const run_records& records, run_summary& summary) {
  double control = 0;
  double telemetry = 0;
  double wall = 0;
  for (const auto* host : records.file.workers())
    if (const auto* live = records.run.find_worker(host->name); live != nullptr) {
      summary.wall_seconds = std::max(summary.wall_seconds, live->course.elapsed_seconds());
      summary.steps = std::max(summary.steps, live->course.steps_done());
      control += live->control_seconds;
      telemetry += live->telemetry_seconds;
      wall += live->training_seconds;
    }
  add_overhead(control, telemetry, wall, summary);
  summary.epochs = records.run.progress().epoch();
  const auto reached = std::ranges::find_if(records.evaluations, [&](const auto& evaluation) {
    return summary.target_accuracy > 0 && evaluation.test_accuracy >= summary.target_accuracy;
  });
  if (reached != records.evaluations.end())
    summary.seconds_to_target = reached->elapsed_seconds;
}

void add_farewells(const run_records& records, run_summary& summary) {
  double control = 0;
  double telemetry = 0;
  double wall = 0;
  for (const auto& farewell : records.farewells) {
    summary.wall_seconds = std::max(summary.wall_seconds, farewell.wall_seconds);
    summary.steps = std::max(summary.steps, farewell.steps);
    summary.samples = std::max(summary.samples, farewell.samples);
    summary.epochs = std::max(summary.epochs, farewell.epochs);
    if (farewell.seconds_to_target >= 0)
      summary.seconds_to_target = farewell.seconds_to_target;
    control += farewell.control_seconds;
    telemetry += farewell.telemetry_seconds;
    wall += farewell.wall_seconds;
  }
  add_overhead(control, telemetry, wall, summary);
}

} // namespace

worker_summary describe_worker(const cluster::host& host) {
  worker_summary worker{.host = host.name};
  for (const auto& change : host.emulate) {
    if (change.at_seconds == 0)
      worker.compute_slowdown = change.compute_slowdown;
    else
      worker.slowdown_changes = true;
  }
  return worker;
}

worker_summary summarise_worker(const ledger::run& run, const cluster::host& host) {
  auto worker = describe_worker(host);
  if (const auto* live = run.find_worker(host.name)) {
    worker.rank = static_cast<std::uint32_t>(live - run.workers().data()); // places nobody has had count
    live->course.describe(worker);
  }
  return worker;
}

run_summary summarise(const run_records& records, run_observations observed) {
  const auto& file = records.file;
  run_summary summary{.cluster = file.name,
                      .policy = std::string(cluster::to_string(file.arbitrator.policy)),
                      .mode = std::string(cluster::to_string(file.arbitrator.mode)),
                      .seed = file.seed,
                      .target_accuracy = file.training.target_accuracy};
  judge_end(records, observed.given_up, summary);
  add_replicas_left(records, summary);
  summary.told = !records.farewells.empty();
  if (summary.told)
    add_farewells(records, summary);
  else
    add_windows(records, summary);
  count_lives(records, observed, summary);
  summary.decisions = count_decisions(records);
  if (const auto samples = records.run.samples().against(summary.samples); samples && summary.told) {
    summary.samples_dropped = samples->dropped;
    summary.samples_repeated = samples->repeated;
  }
  if (summary.told)
    summary.final_accuracy = first_to_tell(records.farewells).final_accuracy;
  if (!records.evaluations.empty())
    summary.final_accuracy = records.evaluations.back().test_accuracy;
  std::uint64_t samples = 0;
  for (const auto* host : file.workers()) {
    summary.workers.push_back(summarise_worker(records.run, *host));
    const auto& worker = summary.workers.back();
    samples += worker.samples;
    add_steps(summary.attribution, worker.time, worker.steps);
  }
  for (auto& worker : summary.workers)
    worker.share = samples > 0 ? static_cast<double>(worker.samples) / static_cast<double>(samples) : 0;
  if (summary.samples == 0)
    summary.samples = samples;
  summary.warnings = std::move(observed.warnings);
  for (auto& warning : find_warnings(records, summary))
    summary.warnings.push_back(std::move(warning));
  return summary;
}

std::string to_json(const run_summary& summary) {
  json object = {{"cluster", summary.cluster},
                 {"policy", summary.policy},
                 {"mode", summary.mode},
                 {"seed", summary.seed},
                 {"workers", summary.workers.size()},
                 {"succeeded", summary.succeeded},
                 {"reason", summary.reason},
                 {"started_at", summary.started_at},
                 {"gradients", summary.gradients},
                 {"wall_seconds", summary.wall_seconds},
                 {"steps", summary.steps},
                 {"samples", summary.samples},
                 {"epochs", summary.epochs},
                 {"final_accuracy", summary.final_accuracy},
                 {"target_accuracy", summary.target_accuracy}};
  object["seconds_to_target"] = or_null(summary.seconds_to_target >= 0, summary.seconds_to_target);
  const auto& decisions = summary.decisions;
  object["decisions"] = {{"made", decisions.made},
                         {"applied", or_null(summary.told, decisions.applied)},
                         {"late", or_null(summary.told, decisions.late)},
                         {"superseded", or_null(summary.told, decisions.superseded)},
                         {"unapplied", or_null(summary.told, decisions.unapplied)},
                         {"stale_refused", or_null(summary.told, decisions.stale_refused)},
                         {"lost", or_null(summary.told, decisions.lost)},
                         {"duplicated", or_null(summary.told, decisions.duplicated)},
                         {"windows", decisions.windows},
                         {"interventions", decisions.interventions},
                         {"moves", decisions.moves},
                         {"unapplied_by_loss", or_null(summary.told, decisions.unapplied_by_loss)}};
  object["decisions"]["unapplied_by_loss_of"] = decisions.losses;
  object["generations"] = summary.generations;
  object["steps_lost"] = summary.steps_lost;
  object["samples_dropped"] = or_null(summary.samples_dropped);
  object["samples_repeated"] = or_null(summary.samples_repeated);
  object["left"] = summary.left;
  object["restarts"] = summary.restarts;
  object["restarts_by_host"] = summary.restarts_by_host;
  object["policy_version"] = summary.policy_version;
  object["overhead"] = {{"control_fraction", summary.control_fraction},
                        {"telemetry_fraction", summary.telemetry_fraction}};
  object["attribution"] = time_object(summary.attribution);
  object["per_worker"] = json::array();
  for (const auto& worker : summary.workers)
    object["per_worker"].push_back({{"host", worker.host},
                                    {"rank", worker.rank},
                                    {"compute_slowdown", worker.compute_slowdown},
                                    {"first_batch", worker.first_batch},
                                    {"last_batch", worker.last_batch},
                                    {"mean_batch", worker.mean_batch},
                                    {"samples", worker.samples},
                                    {"share", worker.share},
                                    {"step_seconds", or_null(worker.timed_steps > 0, worker.step_seconds)},
                                    {"compute_seconds", or_null(worker.timed_steps > 0, worker.compute_seconds)},
                                    {"exchange_seconds", or_null(worker.timed_steps > 0, worker.exchange_seconds)},
                                    {"data_seconds", or_null(worker.timed_steps > 0, worker.data_seconds)},
                                    {"moved_samples", worker.moved_samples},
                                    {"speed_changes", worker.speed_changes},
                                    {"time", time_object(worker.time)}});
  object["warnings"] = summary.warnings;
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string epochs_csv(const std::vector<messages::evaluation_report>& evaluations) {
  std::string text = "epoch,step,samples,seconds,train_loss,test_loss,test_accuracy,global_batch,learning_rate\n";
  for (const auto& each : evaluations)
    fmt::format_to(std::back_inserter(text), "{},{},{},{:.10g},{:.10g},{:.10g},{:.10g},{},{:.10g}\n", each.epoch,
                   each.step, each.samples, each.elapsed_seconds, messages::received_loss(each.train_loss),
                   messages::received_loss(each.test_loss), each.test_accuracy, each.global_batch, each.learning_rate);
  return text;
}

} // namespace dynamix::ledger
