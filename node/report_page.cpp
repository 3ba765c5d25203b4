#include "node/report_page.hpp"

#include "node/plot.hpp"
#include "node/report.hpp"
#include "node/run_plots.hpp"
#include "node/text.hpp"

#include <algorithm>

namespace dynamix::node {
namespace {

constexpr std::size_t events_shown = 200;
constexpr std::size_t rows_open = 16; ///< of a table; a longer one is folded

struct fact {
  const char* name;
  std::string value;
};

std::string facts_list(const run_records& records, const run_summary& summary) {
  const auto speed = summary.wall_seconds > 0 ? static_cast<double>(summary.samples) / summary.wall_seconds : 0;
  std::vector<fact> facts = {
      {"test accuracy", summary.final_accuracy > 0 ? percent(summary.final_accuracy) : "not evaluated"},
      {"training time", duration(summary.wall_seconds)},
      {"workers", grouped(summary.workers.size())},
      {"samples", grouped(summary.samples)},
      {"samples a second", grouped(static_cast<std::uint64_t>(speed))},
      {"steps", grouped(summary.steps)},
      {"windows decided", grouped(summary.decisions.windows)},
      {"generations", grouped(summary.generations)},
      {"control overhead", percent(summary.control_fraction)},
      {"telemetry overhead", percent(summary.telemetry_fraction)}};
  if (summary.target_accuracy > 0)
    facts.insert(facts.begin() + 1,
                 {"target", percent(summary.target_accuracy) +
                                (summary.seconds_to_target < 0 ? ", not reached"
                                                               : " after " + duration(summary.seconds_to_target))});
  if (summary.decisions.interventions > 0)
    facts.push_back({"guard stepped in", grouped(summary.decisions.interventions) + " windows"});
  std::string text = "<ul class=\"facts\">\n";
  for (const auto& each : facts)
    text += "<li><b>" + html_escape(each.value) + "</b> " + each.name + "</li>\n";
  text += "</ul>\n<p>" + std::string(summary.succeeded ? "Ended: " : "<strong>Did not end well:</strong> ") +
          html_escape(printable(summary.reason)) + ".</p>\n";
  for (const auto& warning : summary.warnings)
    text += "<p class=\"warning\">" + html_escape(warning) + "</p>\n";
  const bool simulated = std::ranges::any_of(records.rows, [](const auto& row) {
    const auto* event = std::get_if<ledger::event>(&row.entry);
    return event != nullptr && event->event == "simulated";
  });
  return text + (simulated ? "<p class=\"warning\">Simulated: hosts, network and learning are models.</p>\n" : "");
}

std::string section(const std::vector<run_plot>& plots, const std::string& name) {
  std::vector<std::string> drawn;
  for (const auto& each : plots)
    if (each.section == name)
      drawn.push_back(each.svg);
  return "<h2>" + name + "</h2>\n" + html_plots(drawn);
}

/// Folded where it is long.
std::string table(const std::string& heading, const std::vector<std::vector<std::string>>& rows) {
  if (rows.size() < 2)
    return "";
  const bool fold = rows.size() - 1 > rows_open;
  return "<h2>" + heading + "</h2>\n" +
         (fold ? "<details><summary>" + grouped(rows.size() - 1) + " rows</summary>\n" : "") + html_table(rows) +
         (fold ? "</details>\n" : "");
}

std::vector<std::vector<std::string>> event_rows(const std::vector<run_mark>& marks) {
  std::vector<std::vector<std::string>> rows = {{"seconds", "what happened"}};
  for (std::size_t i = 0; i < std::min(marks.size(), events_shown); ++i)
    rows.push_back({fixed(marks[i].seconds, 1), marks[i].text});
  if (marks.size() > events_shown)
    rows.push_back({"", grouped(marks.size() - events_shown) + " more are in the ledger"});
  return rows;
}

std::vector<std::vector<std::string>> version_rows(const run_records& records, const run_summary& summary,
                                                   const std::string& made_with) {
  std::vector<std::vector<std::string>> rows = {{"what", "version"}};
  for (const auto& row : records.rows)
    if (const auto* start = std::get_if<ledger::start>(&row.entry))
      rows.push_back({"run begun " + start->started_at, start->version.empty() ? "not recorded" : start->version});
  rows.push_back({"policy at the end", std::to_string(summary.policy_version)});
  rows.push_back({"this page", made_with});
  return rows;
}

} // namespace

std::string report_page(const run_records& records, const run_summary& summary, const std::string& made_with) {
  const auto marks = records.course.marks();
  const auto plots = plots_of(records, summary, outcome_of(records, summary), marks);
  std::string body = "<p>Cluster " + html_escape(summary.cluster) + ", policy " + html_escape(summary.policy) + " (" +
                     html_escape(summary.mode) + "), seed " + std::to_string(summary.seed) +
                     (summary.started_at.empty() ? "" : ", started " + html_escape(summary.started_at)) + ".</p>\n" +
                     facts_list(records, summary);
  for (const char* name : {"Learning", "Batch sizes", "Time", "Policy"})
    body += section(plots, name);
  body += table("Workers", worker_rows(summary)) + table("Evaluations", evaluation_rows(records)) +
          table("Generations and faults", event_rows(marks)) +
          table("Versions", version_rows(records, summary, made_with)) +
          "<h2>Cluster file</h2>\n<details><summary>as this run used it, defaults written out</summary>\n<pre>" +
          html_escape(cluster::to_toml(records.file)) + "</pre></details>\n";
  return html_page(summary.cluster + ", " + summary.policy, body);
}

} // namespace dynamix::node
