#include "node/summary.hpp"

#include "node/step_times.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

namespace dynamix::node {
namespace {

using json = nlohmann::ordered_json;

worker_summary summarise_worker(const run_records& records, const cluster::host& host, std::uint32_t rank) {
  worker_summary worker{.host = host.name, .rank = rank};
  for (const auto& change : host.emulate) {
    if (change.at_seconds == 0)
      worker.compute_slowdown = change.compute_slowdown;
    else
      worker.slowdown_changes = true;
  }
  const auto reports = reports_of(records.rows, host.name);
  if (reports.empty())
    return worker;
  worker.first_batch = reports.front().batch;
  worker.last_batch = reports.back().batch;
  worker.time = mean_step_times(records.rows, host.name);
  double steps = 0;
  for (const auto& report : reports) {
    const auto& training = report.training;
    worker.samples += training.samples;
    steps += training.steps;
    worker.step_seconds += training.steps * training.iteration_seconds;
    worker.compute_seconds += training.steps * training.compute_seconds;
    worker.exchange_seconds += training.steps * training.exchange_seconds;
    worker.data_seconds += training.steps * training.data_seconds;
  }
  worker.steps = steps;
  if (steps > 0) {
    worker.mean_batch = static_cast<double>(worker.samples) / steps;
    for (double* total :
         {&worker.step_seconds, &worker.compute_seconds, &worker.exchange_seconds, &worker.data_seconds})
      *total /= steps;
  }
  return worker;
}

json time_object(const policy::time_split& time) {
  return {{"compute_seconds", time.compute_seconds}, {"cpu_wait_seconds", time.cpu_wait_seconds},
          {"network_seconds", time.network_seconds}, {"barrier_seconds", time.barrier_seconds},
          {"data_seconds", time.data_seconds},       {"other_seconds", time.other_seconds}};
}

bool guard_stepped_in(const actors::ledger_window& window) {
  return std::ranges::any_of(window.workers, [](const auto& worker) { return !worker.intervention.empty(); });
}

/// Decisions for one worker since its process came.
struct decisions_made {
  std::uint64_t made = 0;
  std::uint64_t on_their_way = 0;   ///< when its connection broke, or the arbitrator ended
  std::vector<double> made_seconds; ///< of those that may be on their way

  /// Of what was made since then nothing needs to have arrived, and of the newest in any case.
  void interrupt(double since_seconds) {
    const auto recent = std::ranges::count_if(made_seconds, [&](double at) { return at >= since_seconds; });
    on_their_way += std::max<std::uint64_t>(made_seconds.empty() ? 0 : 1, static_cast<std::uint64_t>(recent));
    made_seconds.clear();
  }
};

/// `silence_seconds`: how long nothing may have passed before a worker was called lost.
std::map<std::string, decisions_made> count_made(const std::vector<actors::ledger_row>& rows, double silence_seconds,
                                                 decision_summary& counted) {
  std::map<std::string, decisions_made> made_for;
  for (const auto& row : rows) {
    if (const auto* window = std::get_if<actors::ledger_window>(&row.entry); window != nullptr && window->decided) {
      ++counted.windows;
      counted.interventions += guard_stepped_in(*window) ? 1 : 0;
      for (const auto& worker : window->workers) {
        ++made_for[worker.report.host].made;
        made_for[worker.report.host].made_seconds.push_back(row.at_seconds);
      }
    } else if (const auto* event = std::get_if<actors::ledger_event>(&row.entry)) {
      if (event->event == "joined")
        made_for[event->host] = {}; // a new process
      else if (event->event == "lost")
        made_for[event->host].interrupt(row.at_seconds - silence_seconds);
      else if (event->event == "rejoined")
        made_for[event->host].interrupt(row.at_seconds); // by a new connection, or for a new generation
    } else if (std::holds_alternative<actors::ledger_start>(row.entry)) {
      for (auto& [host, made] : made_for)
        made.interrupt(row.at_seconds + 1e9); // another clock: only the newest
    }
  }
  return made_for;
}

decision_summary count_decisions(const run_records& records) {
  decision_summary counted;
  const auto timeouts = cluster::derive_timeouts(records.file.detect_ms);
  const double silence_seconds = (timeouts.silence_ms + 2.0 * timeouts.beat_interval_ms) / 1000;
  auto made_for = count_made(records.rows, silence_seconds, counted);
  for (const auto& [host, made] : made_for)
    counted.made += made.made;
  for (const auto& farewell : records.farewells) {
    const auto& own = farewell.decisions;
    counted.applied += own.applied;
    counted.late += own.late;
    counted.superseded += own.superseded;
    counted.unapplied += own.unapplied;
    counted.stale_refused += own.stale_refused;
    counted.duplicated += own.duplicated;
    const auto& made = made_for[farewell.host];
    const std::uint64_t excused = own.received + own.stale_refused + made.on_their_way;
    counted.lost += made.made > excused ? made.made - excused : 0;
  }
  return counted;
}

void count_lives(const run_records& records, const run_observations& observed, run_summary& summary) {
  std::set<std::uint64_t> generations;
  std::uint64_t lives = 0;
  for (const auto& row : records.rows) {
    if (const auto* start = std::get_if<actors::ledger_start>(&row.entry)) {
      summary.generations += generations.size();
      generations.clear();
      if (lives++ == 0)
        summary.started_at = start->started_at;
    } else if (const auto* window = std::get_if<actors::ledger_window>(&row.entry)) {
      generations.insert(window->generation);
      summary.policy_version = window->policy_version;
    } else if (const auto* generation = std::get_if<actors::ledger_generation>(&row.entry)) {
      generations.insert(generation->generation);
      summary.steps_lost += generation->steps_lost;
    } else if (const auto* event = std::get_if<actors::ledger_event>(&row.entry)) {
      summary.restarts += event->event == "restarted" ? 1 : 0;
    }
  }
  summary.generations += generations.size();
  summary.restarts += lives > 0 ? lives - 1 : 0;
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

void add_farewells(const run_records& records, const std::set<std::string>& given_up, run_summary& summary) {
  double control = 0;
  double telemetry = 0;
  double wall = 0;
  const auto failed = std::ranges::find_if(records.farewells, [&](const auto& farewell) {
    return !farewell.succeeded && !given_up.contains(farewell.host);
  });
  const auto workers = records.file.workers();
  const bool all_said = std::ranges::all_of(workers, [&](const auto* worker) {
    return given_up.contains(worker->name) || std::ranges::find(records.farewells, worker->name, [](const auto& each) {
                                                return each.host;
                                              }) != records.farewells.end();
  });
  summary.succeeded = failed == records.farewells.end() && all_said && !records.farewells.empty();
  if (records.farewells.empty())
    summary.reason = "no worker has said farewell";
  else
    summary.reason = (failed != records.farewells.end() ? *failed : first_to_tell(records.farewells)).reason;
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
  if (wall > 0) {
    summary.control_fraction = control / wall;
    summary.telemetry_fraction = telemetry / wall;
  }
}

} // namespace

std::vector<messages::window_report> reports_of(const std::vector<actors::ledger_row>& rows, const std::string& host) {
  std::map<std::uint64_t, messages::window_report> by_window;
  for (const auto& row : rows)
    if (const auto* window = std::get_if<actors::ledger_window>(&row.entry))
      for (const auto& worker : window->workers)
        if (worker.report.host == host)
          by_window[worker.report.window] = worker.report;
  std::vector<messages::window_report> reports;
  for (auto& [window, report] : by_window)
    reports.push_back(std::move(report));
  return reports;
}

run_summary summarise(const run_records& records, run_observations observed) {
  const auto& file = records.file;
  run_summary summary{.cluster = file.name,
                      .policy = std::string(cluster::to_string(file.arbitrator.policy)),
                      .mode = std::string(cluster::to_string(file.arbitrator.mode)),
                      .seed = file.seed,
                      .target_accuracy = file.training.target_accuracy};
  add_farewells(records, observed.given_up, summary);
  count_lives(records, observed, summary);
  summary.decisions = count_decisions(records);
  if (!records.farewells.empty())
    summary.final_accuracy = first_to_tell(records.farewells).final_accuracy;
  if (!records.evaluations.empty())
    summary.final_accuracy = records.evaluations.back().test_accuracy;
  std::uint64_t samples = 0;
  for (std::uint32_t rank = 0; const auto* host : file.workers()) {
    summary.workers.push_back(summarise_worker(records, *host, rank++));
    const auto& worker = summary.workers.back();
    samples += worker.samples;
    add_steps(summary.attribution, worker.time, worker.steps);
    const auto reports = reports_of(records.rows, host->name);
    if (records.farewells.empty() && !reports.empty())
      summary.wall_seconds = std::max(summary.wall_seconds, reports.back().elapsed_seconds);
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
                 {"wall_seconds", summary.wall_seconds},
                 {"steps", summary.steps},
                 {"samples", summary.samples},
                 {"epochs", summary.epochs},
                 {"final_accuracy", summary.final_accuracy},
                 {"target_accuracy", summary.target_accuracy}};
  object["seconds_to_target"] = summary.seconds_to_target < 0 ? json(nullptr) : json(summary.seconds_to_target);
  const auto& decisions = summary.decisions;
  object["decisions"] = {{"made", decisions.made},           {"applied", decisions.applied},
                         {"late", decisions.late},           {"superseded", decisions.superseded},
                         {"unapplied", decisions.unapplied}, {"stale_refused", decisions.stale_refused},
                         {"lost", decisions.lost},           {"duplicated", decisions.duplicated},
                         {"windows", decisions.windows},     {"interventions", decisions.interventions}};
  object["generations"] = summary.generations;
  object["steps_lost"] = summary.steps_lost;
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
                                    {"step_seconds", worker.step_seconds},
                                    {"compute_seconds", worker.compute_seconds},
                                    {"exchange_seconds", worker.exchange_seconds},
                                    {"data_seconds", worker.data_seconds},
                                    {"time", time_object(worker.time)}});
  object["warnings"] = summary.warnings;
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string epochs_csv(const std::vector<messages::evaluation_report>& evaluations) {
  std::ostringstream text;
  text << "epoch,step,samples,seconds,train_loss,test_loss,test_accuracy,global_batch,learning_rate\n";
  text.precision(10);
  for (const auto& each : evaluations)
    text << each.epoch << ',' << each.step << ',' << each.samples << ',' << each.elapsed_seconds << ','
         << each.train_loss << ',' << each.test_loss << ',' << each.test_accuracy << ',' << each.global_batch << ','
         << each.learning_rate << '\n';
  return text.str();
}

} // namespace dynamix::node
