#include "dashboard/window_explanation.hpp"

#include "ledger/codec.hpp"
#include "ledger/explanation.hpp"
#include "ledger/line_reader.hpp"
#include "ledger/run.hpp"
#include "storage/json_text.hpp"

#include <utility>
#include <vector>

namespace dynamix::dashboard {
namespace {

/// Behind the window: in one of these its decision has come into force, or never does.
constexpr std::size_t windows_behind = 8;

std::string problem_json(const std::string& problem) {
  storage::json_text json;
  return json.open_object().member("problem", problem).close_object().take();
}

} // namespace

std::string explain_at(const cluster::cluster_file& file, ledger::line_reader& lines, const explanation_question& asked,
                       const std::function<bool()>& stopped) {
  ledger::run run(file); // for the time of training, which goes on in a run that was resumed
  std::vector<ledger::row> rows;
  std::uint64_t found = 0;
  std::size_t behind = 0;
  for (std::string line; behind < windows_behind && !stopped() && lines.next(line);) {
    if (lines.position() > explained_bytes_max)
      return problem_json("This window lies beyond the first 64 MiB of the ledger, which the page does not search: "
                          "dynamix-node explain --run RUN --window N does.");
    auto row = ledger::parse_line(line);
    if (!row)
      continue;
    run.add(*row);
    if (const auto* window = std::get_if<ledger::window>(&row->entry)) {
      behind += found != 0 ? 1 : 0;
      if (found == 0 && run.course().newest(ledger::signal::elapsed_seconds) >= asked.elapsed_seconds)
        found = window->key.window;
    }
    rows.push_back(std::move(*row));
  }
  std::string problem;
  const auto explanation = ledger::explain(rows, found, asked.worker, problem);
  if (!problem.empty())
    return problem_json(problem);
  storage::json_text json;
  json.open_object().member("window", explanation.window.key.window);
  return json.member("text", to_text(explanation, ledger::explanation_detail::summary)).close_object().take();
}

} // namespace dynamix::dashboard
