#include "node/commands/top_view.hpp"

#include "node/launch/live_output.hpp"
#include "node/reports/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <sstream>
#include <utility>

namespace dynamix::node {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t stories_most = 6; ///< warnings and events
constexpr std::size_t number_width = 7; ///< at least, so that columns stay where they are

/// A member, or an element of a column; null where there is none.
const json& at(const json& from, const char* name) {
  static const json none;
  const auto found = from.is_object() ? from.find(name) : from.end();
  return found == from.end() ? none : *found;
}

const json& at(const json& column, std::size_t row) {
  return column.is_array() && row < column.size() ? column[row] : at(column, "");
}

double number(const json& value) {
  return value.is_number() ? value.get<double>() : 0;
}

std::string text(const json& value) {
  return value.is_string() ? printable(value.get<std::string>(), 200) : "";
}

std::string whole(const json& value) {
  if (value.is_null())
    return "-";
  return grouped(static_cast<std::uint64_t>(std::max(0.0, std::round(number(value)))));
}

/// Of 1; "-" where nobody knows it, as of a script that does not tell.
std::string share(const json& value) {
  return value.is_number() ? percent(number(value), 1) : "-";
}

using fields = std::vector<std::string>;

/// Side by side, on as many lines as that takes.
void add_fields(std::vector<std::string>& lines, const fields& all, std::size_t width) {
  std::string line;
  for (const auto& field : all)
    if (line.empty() || line.size() + 2 + field.size() <= width)
      line += (line.empty() ? "" : "  ") + field;
    else
      lines.push_back(std::exchange(line, field));
  lines.push_back(line);
}

std::vector<fields> head(const json& from_run, const json& from_now, const json& evaluation) {
  const auto run = [&](const char* name) -> const json& { return at(from_run, name); };
  const auto now = [&](const char* name) -> const json& { return at(from_now, name); };
  const double planned = number(run("planned_samples"));
  const double left = std::max(0.0, planned - number(now("samples")));
  const double speed = number(now("samples_per_second"));
  const double target = number(run("target_accuracy"));
  const bool training = text(now("phase")) == "training" && speed > 0;
  std::vector<fields> lines = {
      {text(run("cluster")),
       fmt::format("{} ({}) version {}", text(run("policy")), text(run("mode")), whole(now("policy_version"))),
       text(now("phase")), "generation " + whole(now("generation")), "window " + whole(now("window")),
       duration(number(now("elapsed_seconds")))},
      {fmt::format("samples {}{}", whole(now("samples")),
                   planned > 0
                       ? fmt::format(" of {} ({})", whole(run("planned_samples")), percent(1 - left / planned, 0))
                       : ""),
       whole(now("samples_per_second")) + "/s"},
      {fmt::format("test accuracy {}{}", share(at(evaluation, "test_accuracy")),
                   target > 0 ? " (target " + percent(target, 1) + ")" : ""),
       "batches " + share(now("accuracy")), "global batch " + whole(now("global_batch")),
       "noise scale " + whole(now("noise_scale")),
       "reward " + (now("reward").is_number() ? fixed(number(now("reward")), 3) : "-")}};
  if (training && planned > 0)
    lines[1].push_back((target > 0 ? "ETA at most " : "ETA ") + duration(left / speed));
  return lines;
}

std::string name_of(const json& workers, std::size_t row) {
  return cut(text(at(at(workers, "name"), row)), 23);
}

constexpr std::size_t left_columns = 3; ///< the first ones, of words
const fields titles = {"worker", "state", "batch", "samples/s", "step ms", "compute", "no CPU", "waiting", ""};
/// Columns by how soon they are left out where the screen is too narrow; the others stay.
constexpr std::size_t dispensable[] = {3, 1, 6, 7};

fields worker_cells(const json& workers, std::size_t row) {
  const auto cell = [&](const char* column) -> const json& { return at(at(workers, column), row); };
  const auto part = [&](const char* name) { return number(at(at(at(workers, "parts"), name), row)); };
  const bool timed = number(cell("step_seconds")) > 0;
  const auto milliseconds = [&](double seconds) { return timed ? fixed(1e3 * seconds, 1) : std::string("-"); };
  const auto& decided = cell("decided_batch");
  const bool changes = number(decided) > 0 && number(decided) != number(cell("batch"));
  return {name_of(workers, row),
          text(cell("state")),
          whole(cell("batch")) + (changes ? " -> " + whole(decided) : ""),
          timed ? whole(cell("samples_per_second")) : "-",
          milliseconds(number(cell("step_seconds"))),
          milliseconds(part("compute")),
          milliseconds(part("cpu_wait")),
          milliseconds(part("exchange") + part("network") + part("barrier")),
          cell("guarded") == true ? "guard" : ""};
}

/// The table's lines, its head first: as many columns as `width` has room for.
std::vector<std::string> worker_table(const json& workers, const std::vector<std::size_t>& rows, std::size_t width) {
  std::vector<fields> table = {titles};
  for (const auto row : rows)
    table.push_back(worker_cells(workers, row));
  std::vector<std::size_t> widths(titles.size());
  for (std::size_t column = 0; column < widths.size(); ++column) {
    for (const auto& line : table)
      widths[column] = std::max(widths[column], line[column].size());
    if (column >= left_columns && !titles[column].empty())
      widths[column] = std::max(widths[column], number_width);
  }
  for (const auto column : dispensable) {
    std::size_t used = 0;
    for (const auto each : widths)
      used += each + (each > 0 && used > 0 ? 2 : 0);
    if (used > width)
      widths[column] = 0;
  }
  std::vector<std::string> lines;
  for (const auto& cells : table) {
    auto& line = lines.emplace_back();
    for (std::size_t column = 0; column < cells.size(); ++column)
      if (widths[column] > 0)
        line += (column == 0 ? "" : "  ") + (column < left_columns || titles[column].empty()
                                                 ? fmt::format("{:<{}}", cells[column], widths[column])
                                                 : fmt::format("{:>{}}", cells[column], widths[column]));
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

/// Workers that fit, in their order; where not all do, the ones that compute longest, with a line for how many more.
std::vector<std::size_t> pick(const json& workers, std::size_t count, std::size_t room) {
  std::vector<std::size_t> rows(count);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  if (count <= room)
    return rows;
  const auto& compute = at(at(workers, "parts"), "compute");
  std::ranges::stable_sort(rows, std::greater<>(), [&](std::size_t row) { return number(at(compute, row)); });
  rows.resize(room > 0 ? room - 1 : 0);
  return rows;
}

std::string story_line(const json& story) {
  if (story.is_string())
    return text(story);
  return fmt::format("{:.1f} s  {} {}  {}", number(at(story, "at_seconds")), text(at(story, "event")),
                     text(at(story, "host")), text(at(story, "text")));
}

/// Broken at blanks into lines of at most `width` characters.
void add_wrapped(std::vector<std::string>& lines, const std::string& words, std::size_t width) {
  std::string line;
  std::istringstream stream(words);
  for (std::string word; stream >> word; line += (line.empty() ? "" : " ") + word)
    if (!line.empty() && line.size() + 1 + word.size() > width)
      lines.push_back(std::exchange(line, ""));
  lines.push_back(line);
}

std::vector<std::string> why_lines(const json& now, std::size_t width) {
  std::vector<std::string> lines(1);
  const auto because = text(at(now, "because"));
  add_wrapped(lines, because.empty() ? "Nothing is known yet: two workers or more have to be measured." : because + ".",
              width);
  if (because.empty())
    return lines;
  add_wrapped(lines, text(at(now, "headline")) + ".", width);
  lines.insert(lines.end(),
               {"", "One window in full: dynamix-node explain --run RUN --window " + whole(at(now, "window"))});
  return lines;
}

std::vector<std::string> help_lines() {
  return {"",
          "w  workers, with the newest warnings and events",
          "e  warnings and events",
          "x  why the batch sizes are as they are",
          "h  this list",
          "q  quit",
          "",
          "step ms: of one step; of it, compute: computing; no CPU: ready to, but no CPU was free;",
          "waiting: for the network and for slower workers. \"-\": not measured.",
          "A batch \"64 -> 80\" is in force as 64 and decided as 80; guard: the policy's choice was overridden."};
}

std::vector<std::string> story_lines(const json& warnings, const json& events, std::size_t most) {
  std::vector<std::string> lines = {""};
  for (const auto* list : {&warnings, &events})
    for (std::size_t i = 0; list->is_array() && i < list->size(); ++i)
      lines.push_back(story_line((*list)[i]));
  if (lines.size() > most)
    lines.erase(lines.begin() + 1, lines.begin() + 1 + static_cast<std::ptrdiff_t>(lines.size() - most));
  return lines;
}

} // namespace

std::optional<top_view> view_of(char key) {
  switch (key) {
  case 'w':
    return top_view::workers;
  case 'e':
    return top_view::events;
  case 'x':
    return top_view::why;
  case 'h':
  case '?':
    return top_view::help;
  default:
    return std::nullopt;
  }
}

std::optional<std::vector<std::string>> draw_top(const std::string& from, const top_screen& screen, top_view view) {
  const auto state = json::parse(from, nullptr, false);
  if (!at(state, "run").is_object() || !at(state, "now").is_object())
    return std::nullopt;
  std::vector<std::string> lines;
  const auto add = [&](const char* colour, const std::string& line) {
    const auto shown = shorten(line, screen.width);
    lines.push_back(screen.colour ? colour + shown + "\x1b[0m" : shown);
  };
  const auto size_of = [](const json& list) { return list.is_array() ? list.size() : 0; };
  const auto& evaluations = at(state, "evaluations");
  std::vector<std::string> heading;
  for (const auto& each : head(at(state, "run"), at(state, "now"), at(evaluations, size_of(evaluations) - 1)))
    add_fields(heading, each, screen.width);
  heading.resize(std::min({heading.size(), std::max<std::size_t>(3, screen.height / 2), screen.height}));
  for (const auto& line : heading)
    add(lines.empty() ? "\x1b[1m" : "", line);
  if (view != top_view::workers) {
    const auto room = screen.height > lines.size() ? screen.height - lines.size() : 0;
    auto body = view == top_view::help  ? help_lines()
                : view == top_view::why ? why_lines(at(state, "now"), screen.width)
                                        : story_lines(at(state, "warnings"), at(state, "events"), room);
    body.resize(std::min(body.size(), room));
    for (const auto& line : body)
      add("", line);
    return lines;
  }
  const auto& [warnings, events] = std::tie(at(state, "warnings"), at(state, "events"));
  const auto stories = std::min({stories_most, screen.height / 4, size_of(warnings) + size_of(events)});
  const auto warned = std::min(stories, size_of(warnings));
  const auto used = lines.size() + 2 + (stories > 0 ? stories + 1 : 0); // with the table's head and blank lines
  const auto& workers = at(state, "workers");
  const auto count = size_of(at(workers, "name"));
  const auto rows = pick(workers, count, screen.height > used ? screen.height - used : 1);
  lines.emplace_back();
  const auto table = worker_table(workers, rows, screen.width);
  add("\x1b[1m", table.front());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool lost = text(at(at(workers, "state"), rows[i])) == "lost";
    add(lost ? "\x1b[31m" : at(at(workers, "guarded"), rows[i]) == true ? "\x1b[33m" : "", table[i + 1]);
  }
  if (rows.size() < count)
    add("", fmt::format("... and {} that compute faster", grouped(count - rows.size())));
  if (stories > 0)
    lines.emplace_back();
  for (std::size_t i = 0; i < stories; ++i)
    add(i < warned ? "\x1b[33m" : "",
        story_line(i < warned ? at(warnings, i) : at(events, size_of(events) - stories + i)));
  if (lines.size() > screen.height)
    lines.resize(screen.height);
  return lines;
}

} // namespace dynamix::node
