#include "node/reports/report.hpp"

#include "cluster/text_table.hpp"
#include "dashboard/inlined_page.hpp"
#include "dashboard/state_json.hpp"
#include "messages/loss.hpp"
#include "node/reports/text.hpp"
#include "storage/json_text.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace dynamix::node {
namespace {

constexpr std::size_t sparkline_width = 60;
constexpr std::size_t evaluations_shown = 40;
constexpr std::size_t page_cells = 1U << 17; ///< of the heat map, a signal

using cells = std::vector<std::vector<std::string>>; ///< of a table, header first

std::string milliseconds(double seconds) {
  return fixed(1e3 * seconds, 2);
}

std::string loss_text(double sent) {
  const auto loss = messages::received_loss(sent);
  return std::isnan(loss) ? "-" : fixed(loss, 4);
}

/// A script may tell its loss alone.
std::string accuracy_text(double sent) {
  return sent > 0 ? percent(sent) : "-";
}

cells evaluation_rows(const run_records& records) {
  if (records.evaluations.empty())
    return {};
  cells rows = {
      {"epoch", "seconds", "samples", "global batch", "learning rate", "train loss", "test loss", "test accuracy"}};
  // Evaluations may be many; the last one is always shown.
  const std::size_t count = records.evaluations.size();
  const std::size_t stride = (count + evaluations_shown - 1) / evaluations_shown;
  for (std::size_t i = (count - 1) % stride; i < count; i += stride) {
    const auto& each = records.evaluations[i];
    rows.push_back({std::to_string(each.epoch), fixed(each.elapsed_seconds, 1), grouped(each.samples),
                    std::to_string(each.global_batch), fixed(each.learning_rate, 5), loss_text(each.train_loss),
                    loss_text(each.test_loss), accuracy_text(each.test_accuracy)});
  }
  return rows;
}

cells worker_rows(const run_summary& summary) {
  const auto time = [](const auto& worker, double seconds) {
    return worker.timed_steps > 0 ? milliseconds(seconds) : "-";
  };
  cells rows = {{"worker", "slow-down", "batch", "mean batch", "samples", "share", "step ms", "compute ms",
                 "exchange ms", "data ms"}};
  for (const auto& worker : summary.workers)
    rows.push_back({worker.host, fixed(worker.compute_slowdown, 1) + (worker.slowdown_changes ? ", changes" : ""),
                    std::to_string(worker.first_batch) + " -> " + std::to_string(worker.last_batch),
                    fixed(worker.mean_batch, 1), grouped(worker.samples), percent(worker.share, 1),
                    time(worker, worker.step_seconds), time(worker, worker.compute_seconds),
                    time(worker, worker.exchange_seconds), time(worker, worker.data_seconds)});
  return rows;
}

std::string batches_table(const run_records& records) {
  cells rows = {{"worker", "windows", "lowest", "highest", "over time"}};
  for (const auto* host : records.file.workers()) {
    const auto* worker = records.run.find_worker(host->name);
    if (worker->course.reports() == 0)
      continue;
    rows.push_back({host->name, std::to_string(worker->course.reports()), std::to_string(worker->course.lowest_batch()),
                    std::to_string(worker->course.highest_batch()),
                    sparkline(records.run.batches_of(host->name), records.file.batch.lowest, records.file.batch.highest,
                              sparkline_width)});
  }
  if (rows.size() == 1)
    return "  none yet\n";
  return cluster::text_table(rows, 2);
}

std::string decisions_text(const run_summary& summary) {
  const auto& decisions = summary.decisions;
  if (!summary.told)
    return grouped(decisions.made) + " made; how many were applied is not known before a farewell";
  return ledger::decisions_made_text(decisions.made, decisions.applied) + ", " + grouped(decisions.applied) +
         " applied (" + grouped(decisions.late) + " late), " + grouped(decisions.superseded) + " superseded, " +
         grouped(decisions.unapplied) + " unapplied, " +
         (decisions.unapplied_by_loss > 0 ? grouped(decisions.unapplied_by_loss) + " unapplied by a loss, " : "") +
         grouped(decisions.stale_refused) + " stale, " + grouped(decisions.lost) + " lost, " +
         grouped(decisions.duplicated) + " duplicated" +
         (summary.restarts > 0 ? ", since each worker's last start" : ""); // all else is of the whole run
}

/// What came of it, a line each; without a header.
cells result_rows(const run_summary& summary) {
  const auto& decisions = summary.decisions;
  cells rows = {{"cluster", summary.cluster + ", policy " + summary.policy + " (" + summary.mode + "), seed " +
                                std::to_string(summary.seed)},
                {"outcome", (summary.succeeded || summary.goes_on ? "" : "FAILED: ") + printable(summary.reason)},
                {"test accuracy", summary.final_accuracy > 0 ? percent(summary.final_accuracy) : "not evaluated"},
                {"training time", duration(summary.wall_seconds) + " for " + grouped(summary.samples) + " samples in " +
                                      grouped(summary.steps) +
                                      " steps, epochs completed: " + std::to_string(summary.epochs)}};
  if (summary.samples_dropped.value_or(0) + summary.samples_repeated.value_or(0) > 0)
    rows.push_back({"samples", grouped(*summary.samples_dropped) + " dropped, " + grouped(*summary.samples_repeated) +
                                   " trained twice"});
  if (summary.target_accuracy > 0)
    rows.push_back(
        {"target", percent(summary.target_accuracy) + (summary.seconds_to_target < 0
                                                           ? " not reached"
                                                           : " reached after " + duration(summary.seconds_to_target))});
  rows.push_back({"decisions", decisions_text(summary)});
  if (decisions.interventions > 0)
    rows.push_back({"guard", "overrode the policy in " + grouped(decisions.interventions) + " of " +
                                 grouped(decisions.windows) + " windows"});
  rows.push_back({"overhead", "control " + percent(summary.control_fraction) + ", telemetry " +
                                  percent(summary.telemetry_fraction) + " of the workers' time"});
  for (const auto& form : summary.gradients)
    rows.push_back({"gradients", form == "without keys" ? "in the clear, between hosts without keys"
                                 : form == "clear"      ? "in the clear, between hosts that have proved who they are"
                                                        : form + ", between hosts that have proved who they are"});
  if (!summary.left.empty())
    rows.push_back({"hosts left", listed(summary.left) + ", in order, before the end"});
  return rows;
}

cells version_rows(const run_records& records, const run_summary& summary, const std::string& made_with) {
  cells rows = {{"what", "version"}};
  for (const auto& start : records.run.starts())
    rows.push_back({"run begun " + start.started_at, start.version.empty() ? "not recorded" : start.version});
  rows.push_back({"policy at the end", std::to_string(summary.policy_version)});
  rows.push_back({"this page", made_with});
  return rows;
}

void add_table(storage::json_text& json, std::string_view heading, const cells& rows) {
  json.open_object().member("heading", heading).key("rows").open_array();
  for (const auto& row : rows) {
    json.open_array();
    for (const auto& cell : row)
      json.value(cell);
    json.close_array();
  }
  json.close_array().close_object();
}

} // namespace

std::string workers_table(const run_summary& summary) {
  return cluster::text_table(worker_rows(summary), 2);
}

std::string workers_json(const run_summary& summary) {
  return nlohmann::ordered_json::parse(to_json(summary))["per_worker"].dump(2) + "\n";
}

std::string result_block(const run_summary& summary) {
  auto rows = result_rows(summary);
  for (const auto& warning : summary.warnings)
    rows.push_back({"warning", warning});
  return cluster::text_table(rows, 2, cluster::heading::absent);
}

std::string report_text(const run_records& records, const run_summary& summary) {
  return "Result\n" + result_block(summary) + "\nEvaluations\n" +
         (records.evaluations.empty() ? "  none yet\n" : cluster::text_table(evaluation_rows(records), 2)) +
         "\nWorkers (means over all steps)\n" + workers_table(summary) + "\nBatch sizes, from " +
         std::to_string(records.file.batch.lowest) + " to " + std::to_string(records.file.batch.highest) +
         " on a logarithmic scale\n" + batches_table(records);
}

std::string report_page(const run_records& records, const run_summary& summary, const std::string& made_with) {
  storage::json_text tables;
  tables.open_array();
  auto result = result_rows(summary);
  result.insert(result.begin(), {"what", "result"});
  if (records.run.totals().events.contains(messages::name_of(ledger::event_kind::simulated)))
    result.push_back({"simulated", "hosts, network and learning are models"});
  add_table(tables, "Result", result);
  add_table(tables, "Evaluations", evaluation_rows(records));
  add_table(tables, "Versions", version_rows(records, summary, made_with));
  tables.close_array();
  storage::json_text file;
  file.value(cluster::to_toml(records.file));
  const auto state = dashboard::state_json(records.run, {.means = false, .worker_cells = page_cells});
  return dashboard::inlined_page("{\"state\":" + state + ",\"summary\":" + to_json(summary) +
                                 ",\"tables\":" + tables.take() + ",\"cluster_file\":" + file.take() + "}");
}

} // namespace dynamix::node
