#include "node/reports/results.hpp"

#include "node/reports/commit.hpp"
#include "node/reports/report.hpp"
#include "node/reports/text.hpp"
#include "storage/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <utility>

namespace dynamix::node {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t summary_bytes_max = 64U << 20;

/// With what the next report of the run could not know.
std::string summary_text(const run_summary& summary, const run_end_told& told) {
  auto text = to_json(summary);
  const auto& [observed, failure] = told;
  if (observed.warnings.empty() && observed.given_up.empty() && failure.empty())
    return text;
  auto object = json::parse(text);
  object["observed"] = {{"failure", failure}, {"warnings", observed.warnings}, {"given_up", observed.given_up}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace

run_summary summarise_ended(const run_records& records, run_end_told told) {
  auto summary = summarise(records, std::move(told.observed));
  if (!told.failure.empty()) {
    summary.succeeded = summary.goes_on = false;
    summary.reason = printable(told.failure, messages::max_text_length);
  }
  return summary;
}

std::string write_results(const run_directory& run, run_observations observed, const std::string& failure,
                          run_summary& summary) {
  std::string problem;
  const auto records = read_run(run, problem);
  if (!problem.empty())
    return problem;
  const run_end_told told{std::move(observed), failure};
  summary = summarise_ended(records, told);
  for (const auto& [path, text] : {std::pair(run.summary(), summary_text(summary, told)),
                                   std::pair(run.epochs(), ledger::epochs_csv(records.evaluations)),
                                   std::pair(run.report(), report_text(records, summary)),
                                   std::pair(run.page(), report_page(records, summary, program_version()))})
    if (auto wrong = text.empty() ? "" : storage::write_file_atomically(path, text); !wrong.empty())
      return wrong; // a program without the page has none to write
  return "";
}

run_end_told read_end_told(const run_directory& run) {
  std::error_code missing;
  const auto written = std::filesystem::last_write_time(run.summary(), missing);
  const auto newest_row = missing ? written : std::filesystem::last_write_time(run.ledger(), missing);
  std::string text;
  if (missing || newest_row > written || !storage::read_file(run.summary(), summary_bytes_max, text).empty())
    return {};
  try {
    const auto summary = json::parse(text);
    run_end_told told;
    summary.at("restarts_by_host").get_to(told.observed.restarts);
    if (const auto found = summary.find("observed"); found != summary.end()) {
      found->at("failure").get_to(told.failure);
      found->at("warnings").get_to(told.observed.warnings);
      found->at("given_up").get_to(told.observed.given_up);
    }
    return told;
  } catch (const json::exception&) { // of another program
    return {};
  }
}

} // namespace dynamix::node
