#include "node/top_view.hpp"

#include "node/live_output.hpp"
#include "node/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dynamix::node {
namespace {

using nlohmann::json;

constexpr const char* bold = "\x1b[1m";
constexpr const char* yellow = "\x1b[33m";
constexpr const char* red = "\x1b[31m";
constexpr const char* plain = "\x1b[0m";
constexpr std::size_t stories_most = 6; ///< warnings and events

/// A number, or 0 where there is none.
double number(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string text(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? printable(found->get<std::string>(), 200) : "";
}

/// Row `row` of a column.
template <class Value>
Value cell(const json& columns, const char* name, std::size_t row, Value otherwise) {
  const auto found = columns.find(name);
  if (found == columns.end() || !found->is_array() || row >= found->size())
    return otherwise;
  const auto& value = (*found)[row];
  if constexpr (std::is_same_v<Value, std::string>)
    return value.is_string() ? printable(value.get<std::string>(), 64) : otherwise;
  else if constexpr (std::is_same_v<Value, bool>)
    return value.is_boolean() ? value.get<bool>() : otherwise;
  else
    return value.is_number() ? value.get<double>() : otherwise;
}

void read_workers(const json& columns, top_state& state) {
  const auto names = columns.find("name");
  const auto parts = columns.value("parts", json::object());
  for (std::size_t i = 0; names != columns.end() && i < names->size(); ++i)
    state.workers.push_back({.name = cell(columns, "name", i, std::string()),
                             .state = cell(columns, "state", i, std::string()),
                             .batch = cell(columns, "batch", i, 0.0),
                             .decided_batch = cell(columns, "decided_batch", i, 0.0),
                             .samples_per_second = cell(columns, "samples_per_second", i, 0.0),
                             .step_seconds = cell(columns, "step_seconds", i, 0.0),
                             .compute_seconds = cell(parts, "compute", i, 0.0),
                             .waiting_seconds = cell(parts, "exchange", i, 0.0) + cell(parts, "network", i, 0.0) +
                                                cell(parts, "barrier", i, 0.0),
                             .accuracy = cell(columns, "accuracy", i, 0.0),
                             .guarded = cell(columns, "guarded", i, false)});
}

std::string whole(double value) {
  return grouped(static_cast<std::uint64_t>(std::max(0.0, std::round(value))));
}

std::string padded(const std::string& cell, std::size_t width, bool to_the_right = true) {
  const auto shown = cut(cell, width);
  const auto characters = static_cast<std::size_t>(
      std::count_if(shown.begin(), shown.end(), [](unsigned char c) { return (c & 0xC0U) != 0x80U; }));
  const std::string room(width - characters, ' ');
  return to_the_right ? room + shown : shown + room;
}

std::vector<std::string> head(const top_state& state) {
  const double left = state.planned_samples - state.samples;
  const double share = state.planned_samples > 0 ? std::min(1.0, state.samples / state.planned_samples) : 0;
  const bool training = state.phase == "training" && state.samples_per_second > 0;
  return {state.cluster + "  " + state.policy + " (" + state.mode + ") version " + whole(state.policy_version) + "  " +
              state.phase + "  generation " + whole(state.generation) + "  window " + whole(state.window) + "  " +
              duration(state.elapsed_seconds),
          "samples " + whole(state.samples) + " of " + whole(state.planned_samples) + " (" + percent(share, 0) + ")  " +
              whole(state.samples_per_second) + "/s" +
              (training ? std::string(state.target_accuracy > 0 ? "  ETA at most " : "  ETA ") +
                              duration(std::max(0.0, left) / state.samples_per_second)
                        : ""),
          "test accuracy " + (state.test_accuracy ? percent(*state.test_accuracy, 1) : std::string("-")) +
              (state.target_accuracy > 0 ? " of " + percent(state.target_accuracy, 1) : "") + "  batches " +
              percent(state.accuracy, 1) + "  global batch " + whole(state.global_batch) + "  noise scale " +
              whole(state.noise_scale) + "  reward " + fixed(state.reward, 3)};
}

std::string worker_line(const top_worker& worker, std::size_t name_width) {
  const auto change = worker.decided_batch > 0 && worker.decided_batch != worker.batch
                          ? " -> " + whole(worker.decided_batch)
                          : std::string();
  return padded(worker.name, name_width, false) + padded(worker.state, 10) + padded(whole(worker.batch), 7) +
         padded(change, 9, false) + padded(whole(worker.samples_per_second), 10) +
         padded(fixed(1e3 * worker.step_seconds, 1), 9) + padded(fixed(1e3 * worker.compute_seconds, 1), 9) +
         padded(fixed(1e3 * worker.waiting_seconds, 1), 9) + (worker.guarded ? "  guard" : "");
}

/// Those that fit, in their order; where not all do, the ones that compute longest.
std::vector<const top_worker*> pick(const std::vector<top_worker>& workers, std::size_t room) {
  std::vector<const top_worker*> picked;
  for (const auto& worker : workers)
    picked.push_back(&worker);
  if (picked.size() <= room)
    return picked;
  std::ranges::stable_sort(picked, std::greater<>(), &top_worker::compute_seconds);
  picked.resize(room > 0 ? room - 1 : 0); // a line says how many more there are
  return picked;
}

} // namespace

std::optional<top_state> parse_top_state(const std::string& from) {
  const auto object = json::parse(from, nullptr, false);
  if (!object.is_object() || !object.contains("run") || !object.contains("now"))
    return std::nullopt;
  const auto& run = object["run"];
  const auto& now = object["now"];
  top_state state{.cluster = text(run, "cluster"),
                  .policy = text(run, "policy"),
                  .mode = text(run, "mode"),
                  .phase = text(now, "phase"),
                  .window = number(now, "window"),
                  .generation = number(now, "generation"),
                  .policy_version = number(now, "policy_version"),
                  .elapsed_seconds = number(now, "elapsed_seconds"),
                  .samples = number(now, "samples"),
                  .planned_samples = number(run, "planned_samples"),
                  .target_accuracy = number(run, "target_accuracy"),
                  .accuracy = number(now, "accuracy"),
                  .test_accuracy = std::nullopt,
                  .samples_per_second = number(now, "samples_per_second"),
                  .global_batch = number(now, "global_batch"),
                  .noise_scale = number(now, "noise_scale"),
                  .reward = number(now, "reward"),
                  .workers = {},
                  .warnings = {},
                  .events = {}};
  if (const auto found = object.find("evaluations"); found != object.end() && found->is_array() && !found->empty())
    state.test_accuracy = number(found->back(), "test_accuracy");
  if (const auto found = object.find("workers"); found != object.end() && found->is_object())
    read_workers(*found, state);
  for (const auto& warning : object.value("warnings", json::array()))
    if (warning.is_string())
      state.warnings.push_back(printable(warning.get<std::string>()));
  for (const auto& event : object.value("events", json::array()))
    if (event.is_object())
      state.events.push_back(fixed(number(event, "at_seconds"), 1) + " s  " + text(event, "event") + " " +
                             text(event, "host") + "  " + text(event, "text"));
  return state;
}

std::vector<std::string> draw(const top_state& state, const top_screen& screen) {
  const auto paint = [&](const char* colour, const std::string& line) {
    const auto shown = cut(line, screen.width);
    return screen.colour ? colour + shown + plain : shown;
  };
  std::vector<std::string> lines;
  for (const auto& line : head(state))
    lines.push_back(paint(lines.empty() ? bold : "", line));
  const auto stories = std::min({stories_most, screen.height / 4, state.warnings.size() + state.events.size()});
  const auto used = lines.size() + 2 + (stories > 0 ? stories + 1 : 0); // with the table's head and blank lines
  const auto workers = pick(state.workers, screen.height > used ? screen.height - used : 1);
  std::size_t name_width = 8;
  for (const auto* worker : workers)
    name_width = std::clamp(worker->name.size() + 1, name_width, std::size_t{24});
  lines.emplace_back();
  lines.push_back(paint(bold, padded("worker", name_width, false) + padded("state", 10) + padded("batch", 7) +
                                  padded("", 9) + padded("samples/s", 10) + padded("step ms", 9) +
                                  padded("compute", 9) + padded("waiting", 9)));
  for (const auto* worker : workers)
    lines.push_back(paint(worker->state == "lost" ? red
                          : worker->guarded       ? yellow
                                                  : "",
                          worker_line(*worker, name_width)));
  if (workers.size() < state.workers.size())
    lines.push_back(paint("", "... and " + grouped(state.workers.size() - workers.size()) + " that compute faster"));
  if (stories > 0)
    lines.emplace_back();
  for (std::size_t i = 0; i < std::min(stories, state.warnings.size()); ++i)
    lines.push_back(paint(yellow, state.warnings[i]));
  const auto events = stories - std::min(stories, state.warnings.size());
  for (std::size_t i = state.events.size() - events; i < state.events.size(); ++i)
    lines.push_back(paint("", state.events[i]));
  if (lines.size() > screen.height)
    lines.resize(screen.height);
  return lines;
}

} // namespace dynamix::node
