#include "faults/decision_history.hpp"

#include "session/undecided.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>

namespace dynamix::faults {
namespace {

using messages::decision_key;

struct written_decision {
  std::uint64_t step = 0;  ///< with which its window ended; 0: unknown
  std::uint64_t total = 0; ///< samples per step; 0: unknown
  std::uint64_t steps = 0; ///< of its window
};

struct read_decision {
  std::string host;
  decision_key key;
  std::uint64_t total = 0;
  std::uint64_t base_total = 0; ///< that training began with; 0: unknown
  bool of_others = false;       ///< of these samples, some are of members whose workers say nothing in its row
};

/// Of one generation, which rows of several leaders may tell of in any order.
struct generation_history {
  std::uint64_t generation = 0;
  std::size_t members = 0;    ///< 0: unknown
  bool chooses_total = false; ///< the members do, whatever is decided
  bool scripts = false;       ///< they train
  std::map<decision_key, written_decision> writes;
  std::map<std::uint64_t, std::vector<read_decision>> reads; ///< by the step after which they are
};

std::string name_of(const decision_key& key) {
  return key == decision_key{} ? "no decision" : fmt::format("window {} of term {}", key.window, key.term);
}

void add(generation_history& history, const ledger::window& window) {
  written_decision made;
  std::uint64_t batches = 0;
  for (const auto& worker : window.workers)
    batches += worker.report.batch;
  for (const auto& worker : window.workers) {
    const auto& report = worker.report;
    made.total += worker.decided_batch;
    if (worker.stale)
      continue;
    const auto step = report.first_step + report.training.steps;
    made.step = std::max(made.step, step);
    made.steps = std::max<std::uint64_t>(made.steps, report.training.steps);
    if (!history.scripts || report.decision != decision_key{})
      history.reads[step].push_back(
          {report.host, report.decision, report.global_batch, report.base_batch, batches < report.global_batch});
  }
  if (window.workers.size() != history.members)
    made.total = 0; // there are others, for whom another row tells or none
  if (window.decided)
    history.writes.try_emplace(window.key, made);
}

/// What of one step's reads no order explains, where `newest` was in force before.
std::string find_violation(const generation_history& history, std::uint64_t step,
                           const std::vector<read_decision>& reads, const decision_key& newest) {
  const auto& first = reads.front();
  const auto says = [&](const read_decision& one) {
    return fmt::format("generation {}: after step {} {} has {} in force", history.generation, step, one.host,
                       name_of(one.key));
  };
  for (const auto& one : reads)
    if (one.key != first.key || one.total != first.total)
      return fmt::format("{} with {} samples, and {} {} with {}", says(first), first.total, one.host, name_of(one.key),
                         one.total);
  if (first.key < newest)
    return fmt::format("{}, and {} was before", says(first), name_of(newest));
  const auto made = history.writes.find(first.key);
  if (made == history.writes.end())
    return "";
  const auto& [ended, total, steps] = made->second;
  if (step < ended)
    return fmt::format("{}, whose window ended with step {}", says(first), ended);
  const bool may_have_grown = first.total > total && (first.base_total == 0 || first.total <= first.base_total) &&
                              step >= ended + session::undecided_windows * steps;
  const bool may_differ = history.scripts && (first.total < total || first.of_others);
  if (total > 0 && total != first.total && !may_have_grown && !may_differ && !history.chooses_total)
    return fmt::format("{} with {} samples, and {} were decided", says(first), first.total, total);
  return "";
}

std::string find_violation(const generation_history& history) {
  decision_key newest;
  for (const auto& [step, reads] : history.reads) {
    if (auto found = find_violation(history, step, reads, newest); !found.empty())
      return found;
    newest = reads.front().key;
  }
  return "";
}

} // namespace

decision_history check_decisions(const std::vector<ledger::row>& rows, trained_by who) {
  // An arbitrator that knew nothing of the one before may use a generation's number, and keys, once more.
  std::vector<generation_history> histories;
  std::map<std::uint64_t, std::size_t> newest; ///< of that number
  bool chooses_total = false;
  const auto of = [&](std::uint64_t generation, bool anew) -> generation_history& {
    const auto [found, first] = newest.try_emplace(generation, histories.size());
    if (first || anew) {
      found->second = histories.size();
      histories.push_back({.generation = generation,
                           .chooses_total = chooses_total,
                           .scripts = who == trained_by::scripts,
                           .writes = {},
                           .reads = {}});
    }
    return histories[found->second];
  };
  for (const auto& row : rows)
    if (const auto* start = std::get_if<ledger::start>(&row.entry))
      chooses_total = start->policy == "stigmergic";
    else if (const auto* formed = std::get_if<ledger::generation>(&row.entry))
      of(formed->generation, true).members = formed->members.size();
    else if (const auto* window = std::get_if<ledger::window>(&row.entry))
      add(of(window->generation, false), *window);

  decision_history told;
  std::set<decision_key> written;
  std::set<decision_key> seen;
  std::ranges::stable_sort(histories, {}, &generation_history::generation);
  for (const auto& history : histories) {
    told.decisions += history.writes.size();
    for (const auto& [key, made] : history.writes)
      written.insert(key);
    for (const auto& [step, reads] : history.reads) {
      told.reads += reads.size();
      for (const auto& one : reads)
        seen.insert(one.key);
    }
    if (told.violation.empty())
      told.violation = find_violation(history);
  }
  seen.erase(decision_key{});
  told.unwritten =
      static_cast<std::uint64_t>(std::ranges::count_if(seen, [&](const auto& key) { return !written.contains(key); }));
  return told;
}

} // namespace dynamix::faults
