#include "node/run_marks.hpp"

#include "node/text.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace dynamix::node {
namespace {

using kind = plot_mark::kind;

/// Nothing for what needs no mark: joining before the first generation, warnings.
std::optional<kind> kind_of(const ledger::event& event) {
  static const std::map<std::string, kind> kinds = {{"lost", kind::fault},
                                                    {"refused", kind::fault},
                                                    {"restarted", kind::fault},
                                                    {"rejoined", kind::recovery},
                                                    {"leader", kind::recovery}};
  const auto found = kinds.find(event.event);
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

std::string generation_text(const ledger::generation& generation) {
  return "generation " + std::to_string(generation.generation) + " of " + std::to_string(generation.members.size()) +
         " workers" + (generation.reason.empty() ? "" : ": " + generation.reason);
}

} // namespace

void mark_recorder::add(const ledger::row& row) {
  if (std::holds_alternative<ledger::start>(row.entry)) {
    if (!std::exchange(begun_, false))
      return; // the first, or one of replicas that share a ledger and start together
    append_life(marks_);
    if (!now_.windows.empty())
      before_ = now_.windows.back().elapsed_seconds;
    now_ = {};
    now_.events.push_back({0, kind::fault, "the arbitrator started again"});
    return;
  }
  begun_ = true;
  if (const auto* window = std::get_if<ledger::window>(&row.entry)) {
    double elapsed = 0;
    for (const auto& worker : window->workers)
      elapsed = std::max(elapsed, worker.report.elapsed_seconds);
    now_.windows.push_back({row.at_seconds, elapsed});
  } else if (const auto* generation = std::get_if<ledger::generation>(&row.entry)) {
    now_.events.push_back({row.at_seconds, kind::generation, generation_text(*generation)});
  } else if (const auto* event = std::get_if<ledger::event>(&row.entry)) {
    if (const auto what = kind_of(*event))
      now_.events.push_back({row.at_seconds, *what,
                             (event->host.empty() ? "" : event->host + " ") + event->event +
                                 (event->text.empty() ? "" : ": " + event->text)});
  }
}

void mark_recorder::append_life(std::vector<run_mark>& marks) const {
  for (const auto& event : now_.events) {
    double seconds = before_;
    if (!now_.windows.empty()) {
      const auto nearest = std::ranges::min_element(
          now_.windows, {}, [&](const auto& each) { return std::abs(each.at_seconds - event.at_seconds); });
      seconds = nearest->elapsed_seconds + event.at_seconds - nearest->at_seconds;
    }
    marks.push_back({std::max(0.0, seconds), event.what, printable(event.text, 200)});
  }
}

std::vector<run_mark> mark_recorder::marks() const {
  auto marks = marks_;
  append_life(marks);
  std::ranges::stable_sort(marks, {}, &run_mark::seconds);
  return marks;
}

std::vector<plot_mark> to_plot_marks(const std::vector<run_mark>& marks) {
  std::vector<plot_mark> drawn;
  for (const auto& mark : marks)
    if (mark.seconds > 0 || mark.what != kind::generation) // the first generation is no change
      drawn.push_back({mark.seconds, mark.what, mark.text});
  return drawn;
}

} // namespace dynamix::node
