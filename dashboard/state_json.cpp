#include "dashboard/state_json.hpp"

#include "ledger/summary.hpp"
#include "ledger/warnings.hpp"
#include "messages/loss.hpp"
#include "storage/json_text.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace dynamix::dashboard {
namespace {

using namespace ledger;
using storage::json_text;

constexpr double not_known = std::numeric_limits<double>::quiet_NaN(); ///< null

std::string_view name_of(worker_state state) {
  return worker_state_names[static_cast<std::size_t>(state)];
}

std::string_view phase_of(const ledger::run& run) {
  if (run.ended())
    return "ended";
  return run.totals().windows > 0 ? "training" : "waiting";
}

double planned_samples(const ledger::start& start) {
  return start.epochs * static_cast<double>(start.dataset_samples);
}

/// What stays the same for an arbitrator's life.
void add_run(json_text& json, const ledger::run& run) {
  const auto& file = run.file();
  json.key("run").open_object();
  json.member("cluster", file.name).member("policy", run.start().policy).member("mode", run.start().mode);
  json.member("shadow", file.arbitrator.shadow).member("seed", run.start().seed);
  json.member("topology", cluster::to_string(file.arbitrator.topology));
  json.member("window_steps", run.start().window_steps).member("dataset_samples", run.start().dataset_samples);
  json.member("planned_samples", planned_samples(run.start()));
  json.member("target_accuracy", run.start().target_accuracy)
      .member("started_at", run.starts().empty() ? "" : run.starts().front().started_at); // not the arbitrator's newest
  json.column("arbitrators", file.arbitrators(), [](const auto* host) { return host->name; });
  json.close_object();
}

/// What the newest window says of the whole cluster.
void add_now(json_text& json, const ledger::run& run) {
  json.key("now").open_object();
  json.member("phase", phase_of(run)).member("ending", run.ending()).member("at_seconds", run.at_seconds());
  json.member("window", run.window()).member("term", run.term()).member("generation", run.generation());
  json.member("policy_version", run.policy_version()).member("leader", run.leader());
  for (std::size_t i = 0; i < signal_count; ++i)
    json.member(signal_names[i], static_cast<double>(run.course().newest()[i]));
  const auto& totals = run.totals();
  json.member("windows", totals.windows).member("decisions", totals.decisions);
  json.member("intervened_windows", totals.intervened_windows).member("generations", totals.generations);
  json.member("steps_lost", totals.steps_lost);
  json.member("waiting", run.totals().windows > 0 ? "" : run.progress().waiting());
  json.member("headline", headline(run.gain())).member("because", because(run.gain()));
  json.close_object();
}

enum class columns { all, changing };

/// A column per signal, a row per worker.
void add_workers(json_text& json, const ledger::run& run, columns wanted) {
  const auto& workers = run.workers();
  using worker = const live_worker&;
  json.key("workers").open_object();
  // Others may have come to an open cluster since.
  if (wanted == columns::all || run.file().membership == cluster::membership_kind::open) {
    json.column("name", workers, [](worker one) { return one.name; });
    json.column("batch_lowest", workers, [](worker one) { return one.batch_lowest; });
  }
  json.column("batch_highest", workers, [](worker one) { return one.limit(); });
  json.column("state", workers, [](worker one) { return name_of(one.state); });
  json.column("stale", workers, [](worker one) { return one.stale; });
  json.column("batch", workers, [](worker one) { return one.report.batch; });
  json.column("decided_batch", workers, [](worker one) { return one.decided_batch; });
  json.column("samples", workers, [](worker one) { return one.samples; });
  const auto timed = [](worker one) { return timed_steps(one.report.training) > 0; };
  json.column("samples_per_second", workers,
              [&](worker one) { return timed(one) ? one.samples_per_second : not_known; });
  json.column("step_seconds", workers,
              [&](worker one) { return timed(one) ? one.report.training.iteration_seconds : not_known; });
  json.column("accuracy", workers, [&run](worker one) { return run.course().accuracy_of(one.report); });
  json.column("loss", workers, [](worker one) { return messages::received_loss(one.report.training.loss); });
  json.column("reward", workers, [](worker one) { return one.reward; });
  json.column("guarded", workers, [](worker one) { return !one.intervention.empty(); });
  json.column("moved", workers, [](worker one) { return one.report.balance.moved_samples; });
  json.column("slower", workers, [](worker one) { return one.report.balance.newest_change; });
  json.key("parts").open_object();
  for (std::size_t i = 0; i < part_names.size(); ++i)
    json.column(part_names[i], workers, [&, i](worker one) { return timed(one) ? one.parts[i] : not_known; });
  json.close_object().close_object();
}

/// Each worker over the whole run, as summary.json has it; empty until the run has ended.
void add_means(json_text& json, const ledger::run& run) {
  json.key("per_worker").open_array();
  std::vector<worker_summary> all;
  double samples = 0;
  for (const auto& live : run.workers()) {
    if (!run.ended())
      break;
    const auto* known = run.file().find(live.name); // a host that came to an open cluster is not in the file
    all.push_back(summarise_worker(run, known != nullptr ? *known : cluster::host{.name = live.name}));
    samples += static_cast<double>(all.back().samples);
  }
  for (const auto& worker : all) {
    json.open_object().member("host", worker.host).member("compute_slowdown", worker.compute_slowdown);
    json.member("first_batch", worker.first_batch).member("last_batch", worker.last_batch);
    json.member("mean_batch", worker.mean_batch).member("samples", worker.samples);
    json.member("share", samples > 0 ? static_cast<double>(worker.samples) / samples : 0.0);
    const auto timed = [known = worker.timed_steps > 0](double seconds) { return known ? seconds : not_known; };
    json.member("step_seconds", timed(worker.step_seconds)).member("compute_seconds", timed(worker.compute_seconds));
    json.member("exchange_seconds", timed(worker.exchange_seconds)).member("data_seconds", timed(worker.data_seconds));
    json.member("moved_samples", worker.moved_samples).key("time").open_object();
    const auto split = [known = is_known(worker.time)](double seconds) { return known ? seconds : not_known; };
    json.member("compute_seconds", split(worker.time.compute_seconds));
    json.member("cpu_wait_seconds", split(worker.time.cpu_wait_seconds));
    json.member("network_seconds", split(worker.time.network_seconds));
    json.member("barrier_seconds", split(worker.time.barrier_seconds));
    json.member("other_seconds", split(worker.time.other_seconds)).close_object().close_object();
  }
  json.close_array();
}

void add_warnings(json_text& json, const ledger::run& run, const std::vector<std::string>& notices) {
  auto warnings = notices;
  std::ranges::move(ledger::find_warnings(run), std::back_inserter(warnings));
  json.column("warnings", warnings, [](const std::string& text) { return text; });
}

/// Column `index` of a table, oldest first.
void add_table_column(json_text& json, std::string_view name, const thinned_table& table, std::size_t index) {
  json.key(name).open_array();
  for (std::size_t row = 0; row < table.rows(); ++row)
    json.value(static_cast<double>(table.row(row)[index]));
  json.close_array();
}

/// The mean of what is known of a worker in rows [begin, end); NaN where nothing is.
double mean_of(const thinned_table& table, std::size_t worker, std::size_t begin, std::size_t end) {
  double sum = 0;
  double count = 0;
  for (std::size_t row = begin; row < std::min(end, table.rows()); ++row)
    if (const double value = table.row(row)[worker]; std::isfinite(value)) {
      sum += value;
      count += 1;
    }
  return count > 0 ? sum / count : not_known;
}

/// An array per worker, each element the mean of `joined` rows.
void add_worker_history(json_text& json, std::string_view name, const thinned_table& table, std::size_t workers,
                        std::size_t joined) {
  json.key(name).open_array();
  for (std::size_t worker = 0; worker < workers; ++worker) {
    json.open_array();
    for (std::size_t row = 0; row < table.rows(); row += joined)
      json.value(mean_of(table, worker, row, row + joined));
    json.close_array();
  }
  json.close_array();
}

void add_history(json_text& json, const ledger::run& run, std::size_t worker_cells) {
  json.key("history").open_object().member("stride", run.course().history().stride());
  for (std::size_t i = 0; i < signal_count; ++i)
    add_table_column(json, signal_names[i], run.course().history(), i);
  json.close_object();
  const std::size_t cells = run.workers().size() * run.course().batches().rows();
  const std::size_t joined = std::max<std::size_t>(1, cells / worker_cells + (cells % worker_cells > 0 ? 1 : 0));
  json.key("worker_history").open_object().member("stride", run.course().batches().stride() * joined);
  add_worker_history(json, "batch", run.course().batches(), run.workers().size(), joined);
  add_worker_history(json, "work_seconds", run.course().work_seconds(), run.workers().size(), joined);
  json.close_object();
  json.key("policy_history").open_object();
  add_table_column(json, "elapsed_seconds", run.course().policies(), 0);
  add_table_column(json, "entropy", run.course().policies(), 1);
  add_table_column(json, "approximate_kl", run.course().policies(), 2);
  json.close_object();
}

void add_evaluation(json_text& json, const messages::evaluation_report& report) {
  const auto accuracy = report.test_accuracy > 0 ? report.test_accuracy : not_known; // a script may tell its loss alone
  json.open_object().member("elapsed_seconds", report.elapsed_seconds).member("samples", report.samples);
  json.member("epoch", report.epoch).member("step", report.step).member("test_accuracy", accuracy);
  json.member("test_loss", messages::received_loss(report.test_loss));
  json.member("train_loss", messages::received_loss(report.train_loss)).close_object();
}

void add_mark(json_text& json, const mark& one) {
  json.open_object().member("elapsed_seconds", one.elapsed_seconds).member("samples", one.samples);
  json.member("kind", mark_names[static_cast<std::size_t>(one.kind)]).member("text", one.text).close_object();
}

void add_event(json_text& json, const live_event& event) {
  json.open_object().member("at_seconds", event.at_seconds).member("elapsed_seconds", event.elapsed_seconds);
  json.member("event", event.event).member("host", event.host).member("text", event.text).close_object();
}

/// The lists that are short: whole in every update that may change them.
void add_story(json_text& json, const ledger::run& run) {
  json.key("marks").open_array();
  for (const auto& one : run.marks())
    add_mark(json, one);
  json.close_array().key("events").open_array();
  for (const auto& event : run.events())
    add_event(json, event);
  json.close_array().key("shards").open_array();
  for (const auto& [name, shard] : run.shards())
    json.open_object()
        .member("name", name)
        .member("parent", shard.parent)
        .member("level", shard.level)
        .member("workers", shard.workers)
        .member("state", messages::name_of(shard.state))
        .close_object();
  json.close_array();
}

} // namespace

std::string state_json(const ledger::run& run, const state_options& options) {
  json_text json;
  json.open_object().member("version", std::uint64_t{1}).member("position", options.position);
  json.member("remaining_bytes", options.remaining).member("skipped_bytes", options.skipped);
  add_run(json, run);
  add_now(json, run);
  add_workers(json, run, columns::all);
  add_warnings(json, run, options.notices);
  add_story(json, run);
  if (options.means)
    add_means(json, run);
  if (options.history) {
    add_history(json, run, options.worker_cells);
    json.key("evaluations").open_array();
    for (const auto& report : run.evaluations())
      add_evaluation(json, report);
    json.close_array();
  } else if (!run.evaluations().empty()) {
    json.key("evaluations").open_array();
    add_evaluation(json, run.evaluations().back());
    json.close_array();
  }
  return json.close_object().take();
}

std::string update_json(const ledger::run& run, const ledger::row& row, const std::vector<std::string>& notices) {
  json_text json;
  json.open_object();
  if (std::holds_alternative<ledger::window>(row.entry)) {
    json.member("kind", "window");
    add_now(json, run);
    add_workers(json, run, columns::changing);
    add_warnings(json, run, notices);
  } else if (std::holds_alternative<ledger::evaluation>(row.entry)) {
    json.member("kind", "evaluation").key("evaluation");
    add_evaluation(json, run.evaluations().back());
  } else if (const auto* policy = std::get_if<ledger::policy_version>(&row.entry)) {
    json.member("kind", "policy").key("policy").open_object();
    json.member("version", policy->version);
    json.member("elapsed_seconds", static_cast<double>(run.course().newest(signal::elapsed_seconds)));
    json.member("entropy", policy->entropy).member("approximate_kl", policy->approximate_kl).close_object();
  } else { // membership and its like: rare, and they may change anything but the past
    json.member("kind", "story");
    add_run(json, run);
    add_now(json, run);
    add_workers(json, run, columns::all);
    add_warnings(json, run, notices);
    add_story(json, run);
    add_means(json, run);
  }
  return json.close_object().take();
}

} // namespace dynamix::dashboard
