#include "node/summary.hpp"
#include "node/text.hpp"

#include <algorithm>

namespace dynamix::node {
namespace {

constexpr std::size_t windows_for_a_verdict = 20;
constexpr double telemetry_fraction_max = 0.01;
constexpr double stale_share_max = 0.05;
constexpr double diverged_loss = 1e30; ///< the trainer reports a loss that is not finite as a huge one

void find_stuck_batches(const run_records& records, std::vector<std::string>& found) {
  if (records.file.arbitrator.policy == cluster::policy_kind::static_batch)
    return;
  const auto& limits = records.file.batch;
  for (std::uint32_t rank = 0; const auto* host : records.file.workers()) {
    const auto reports = reports_of(records.rows, rank++);
    if (reports.size() < windows_for_a_verdict || limits.lowest == limits.highest)
      continue;
    for (const auto bound : {limits.lowest, limits.highest})
      if (std::all_of(reports.begin() + static_cast<std::ptrdiff_t>(reports.size() / 2), reports.end(),
                      [&](const auto& report) { return report.batch == bound; }))
        found.push_back("the batch size of " + host->name + " was stuck at " +
                        (bound == limits.lowest ? "batch.lowest, " : "batch.highest, ") + std::to_string(bound) +
                        ", for the second half of the run");
  }
}

void find_stale_reports(const run_records& records, std::vector<std::string>& found) {
  std::uint64_t reports = 0;
  std::uint64_t stale = 0;
  for (const auto& row : records.rows)
    if (const auto* window = std::get_if<actors::ledger_window>(&row.entry))
      for (const auto& worker : window->workers) {
        ++reports;
        stale += worker.stale ? 1 : 0;
      }
  if (static_cast<double>(stale) > stale_share_max * static_cast<double>(reports))
    found.push_back(std::to_string(stale) + " of " + std::to_string(reports) +
                    " window reports came too late for their window; a larger cluster.detect_ms waits longer");
}

} // namespace

std::vector<std::string> find_warnings(const run_records& records, const run_summary& summary) {
  std::vector<std::string> found;
  for (const auto& row : records.rows)
    if (const auto* event = std::get_if<actors::ledger_event>(&row.entry);
        event != nullptr && event->event == "warning")
      found.push_back((event->host.empty() ? "" : event->host + ": ") + printable(event->text));
  if (std::any_of(records.evaluations.begin(), records.evaluations.end(), [](const auto& evaluation) {
        return evaluation.train_loss >= diverged_loss || evaluation.test_loss >= diverged_loss;
      }))
    found.push_back("training diverged: the loss is not finite; try a smaller training.learning_rate or clip_norm");
  if (summary.decisions.lost > 0)
    found.push_back(std::to_string(summary.decisions.lost) + " decisions were lost");
  if (summary.decisions.duplicated > 0)
    found.push_back(std::to_string(summary.decisions.duplicated) + " decisions came twice and were refused");
  const auto differs = [&](const auto& farewell) {
    return farewell.parameter_checksum != records.farewells.front().parameter_checksum;
  };
  if (summary.succeeded && std::any_of(records.farewells.begin(), records.farewells.end(), differs))
    found.push_back("the workers ended with different parameters");
  if (summary.telemetry_fraction > telemetry_fraction_max)
    found.push_back("telemetry cost " + percent(summary.telemetry_fraction) +
                    " of the time; [telemetry] sources = [] turns it off");
  find_stuck_batches(records, found);
  find_stale_reports(records, found);
  return found;
}

} // namespace dynamix::node
