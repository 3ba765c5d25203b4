#include "node/run_marks.hpp"

#include "node/text.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace dynamix::node {
namespace {

using kind = plot_mark::kind;

/// Of one arbitrator's life.
struct life {
  struct point {
    double at_seconds; ///< the arbitrator's clock
    double elapsed_seconds;
  };
  struct event {
    double at_seconds;
    kind what;
    std::string text;
  };
  std::vector<point> windows; ///< by time
  std::vector<event> events;
};

/// Nothing for what needs no mark: joining before the first generation, warnings.
std::optional<kind> kind_of(const actors::ledger_event& event) {
  static const std::map<std::string, kind> kinds = {{"lost", kind::fault},
                                                    {"refused", kind::fault},
                                                    {"restarted", kind::fault},
                                                    {"rejoined", kind::recovery},
                                                    {"leader", kind::recovery}};
  const auto found = kinds.find(event.event);
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

std::string generation_text(const actors::ledger_generation& generation) {
  return "generation " + std::to_string(generation.generation) + " of " + std::to_string(generation.members.size()) +
         " workers" + (generation.reason.empty() ? "" : ": " + generation.reason);
}

void add_row(const actors::ledger_row& row, life& now) {
  if (const auto* window = std::get_if<actors::ledger_window>(&row.entry)) {
    double elapsed = 0;
    for (const auto& worker : window->workers)
      elapsed = std::max(elapsed, worker.report.elapsed_seconds);
    now.windows.push_back({row.at_seconds, elapsed});
  } else if (const auto* generation = std::get_if<actors::ledger_generation>(&row.entry)) {
    now.events.push_back({row.at_seconds, kind::generation, generation_text(*generation)});
  } else if (const auto* event = std::get_if<actors::ledger_event>(&row.entry)) {
    if (const auto what = kind_of(*event))
      now.events.push_back({row.at_seconds, *what,
                            (event->host.empty() ? "" : event->host + " ") + event->event +
                                (event->text.empty() ? "" : ": " + event->text)});
  }
}

/// Appends the life's marks; `before` is where the life before has ended.
double add_life(const life& now, double before, std::vector<run_mark>& marks) {
  for (const auto& event : now.events) {
    double seconds = before;
    if (!now.windows.empty()) {
      const auto nearest = std::ranges::min_element(
          now.windows, {}, [&](const life::point& each) { return std::abs(each.at_seconds - event.at_seconds); });
      seconds = nearest->elapsed_seconds + event.at_seconds - nearest->at_seconds;
    }
    marks.push_back({std::max(0.0, seconds), event.what, printable(event.text, 200)});
  }
  return now.windows.empty() ? before : now.windows.back().elapsed_seconds;
}

} // namespace

std::vector<run_mark> marks_of(const std::vector<actors::ledger_row>& rows) {
  std::vector<run_mark> marks;
  life now;
  double before = 0;
  bool first = true;
  for (const auto& row : rows) {
    if (std::holds_alternative<actors::ledger_start>(row.entry)) {
      before = add_life(now, before, marks);
      now = {};
      if (!first)
        now.events.push_back({0, kind::fault, "the arbitrator started again"});
      first = false;
    }
    add_row(row, now);
  }
  add_life(now, before, marks);
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
