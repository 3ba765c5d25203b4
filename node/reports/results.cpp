#include "node/reports/results.hpp"

#include "node/reports/commit.hpp"
#include "node/reports/report.hpp"
#include "node/reports/text.hpp"
#include "storage/atomic_file.hpp"

#include <utility>

namespace dynamix::node {

std::string write_results(const run_directory& run, run_observations observed, const std::string& failure,
                          run_summary& summary) {
  std::string problem;
  const auto records = read_run(run, problem);
  if (!problem.empty())
    return problem;
  summary = summarise(records, std::move(observed));
  if (!failure.empty()) {
    summary.succeeded = summary.goes_on = false;
    summary.reason = printable(failure, messages::max_text_length);
  }
  for (const auto& [path, text] :
       {std::pair(run.summary(), to_json(summary)), std::pair(run.epochs(), ledger::epochs_csv(records.evaluations)),
        std::pair(run.report(), report_text(records, summary)),
        std::pair(run.page(), report_page(records, summary, program_version()))})
    if (auto wrong = text.empty() ? "" : storage::write_file_atomically(path, text); !wrong.empty())
      return wrong; // a program without the page has none to write
  return "";
}

} // namespace dynamix::node
