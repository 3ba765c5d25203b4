#include "node/reports/trace.hpp"

#include "ledger/file.hpp"
#include "node/launch/run_directory.hpp"
#include "node/reports/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

namespace dynamix::node {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t counted_workers = 16; ///< whose batch sizes are drawn as counters

enum lane : int { lane_windows = 1, lane_steps = 2, lane_gathering = 1, lane_deciding = 2, lane_events = 3 };

std::string lines_of(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Calls `visit` with every whole line of a host's trace.
template <class Visit>
void for_each_line(const std::string& path, Visit visit) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_object() && object.contains("kind")) // else torn by a kill
      visit(object);
  }
}

/// Writes events one by one, and counts what they take.
class trace_writer {
public:
  trace_writer(std::ostream& out, double base_seconds, std::uint64_t bytes_max)
      : out_(out), base_seconds_(base_seconds), bytes_max_(bytes_max) {
    out_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  }

  double micros(double seconds) const { return std::round((seconds - base_seconds_) * 1e9) / 1e3; }
  bool room() const { return bytes_ < bytes_max_; }
  std::uint64_t events() const { return events_; }
  void add(const json& event) {
    const auto text = lines_of(event);
    out_ << (events_++ == 0 ? "" : ",\n") << text;
    bytes_ += text.size() + 2;
  }
  void name_process(int process, const std::string& name) {
    add({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"tid", 0}, {"args", {{"name", name}}}});
    add({{"ph", "M"},
         {"name", "process_sort_index"},
         {"pid", process},
         {"tid", 0},
         {"args", {{"sort_index", process}}}});
  }
  void name_thread(int process, int thread, const std::string& name) {
    add({{"ph", "M"}, {"name", "thread_name"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}});
  }
  void span(int process, int thread, const std::string& category, const std::string& name, double begin, double end,
            json arguments = json::object()) {
    add_event("X", process, thread, name, micros(begin), std::move(arguments),
              {{"cat", category}, {"dur", std::max(0.0, micros(end) - micros(begin))}});
  }
  /// Spans that may overlap on one lane.
  void overlapping(int process, int thread, const std::string& category, const std::string& name, double begin,
                   double end, json arguments) {
    const json of = {{"cat", category}, {"id", std::to_string(++id_)}};
    add_event("b", process, thread, name, micros(begin), std::move(arguments), of);
    add_event("e", process, thread, name, std::max(micros(begin), micros(end)), json::object(), of);
  }
  void instant(int process, int thread, const std::string& name, double at, json arguments = json::object()) {
    add_event("i", process, thread, name, micros(at), std::move(arguments), {{"cat", "event"}, {"s", "g"}});
  }
  void counter(int process, const std::string& name, double at, json values) {
    add_event("C", process, 0, name, micros(at), std::move(values), json::object());
  }
  void finish(const json& other) { out_ << "\n],\"otherData\":" << lines_of(other) << "}\n"; }

private:
  void add_event(const char* phase, int process, int thread, const std::string& name, double at_micros, json arguments,
                 const json& more) {
    json event = {{"ph", phase},   {"name", name},    {"pid", process},
                  {"tid", thread}, {"ts", at_micros}, {"args", std::move(arguments)}};
    event.update(more);
    add(event);
  }

  std::ostream& out_;
  double base_seconds_;
  std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t id_ = 0;
};

struct host_trace {
  std::string host;
  std::string path;
  host_moments moments;
  double first_seconds = std::numeric_limits<double>::infinity(); ///< on its own clock
  clock_offset clock;
};

host_trace scan(const std::string& path) {
  host_trace found{.host = std::filesystem::path(path).stem().string(), .path = path, .moments = {}, .clock = {}};
  for_each_line(path, [&](const nlohmann::json& line) {
    const auto kind = line.value("kind", "");
    if (kind == "host")
      found.moments.clock = line.value("clock", "");
    else if (kind == "report" || kind == "decision")
      (kind == "report" ? found.moments.reports : found.moments.decisions)
          .try_emplace({line.value("term", std::uint64_t{0}), line.value("window", std::uint64_t{0})},
                       line.value("at", 0.0));
    else if (line.contains("begin"))
      found.first_seconds = std::min(found.first_seconds, line.value("begin", 0.0));
  });
  return found;
}

void write_step(trace_writer& to, int process, const nlohmann::json& line, double offset) {
  const double begin = line.value("begin", 0.0) - offset;
  const double end = line.value("end", 0.0) - offset;
  const auto arguments = line.value("args", nlohmann::json::object());
  to.span(process, lane_steps, "step", line.value("name", ""), begin, end, {{"batch", arguments.value("batch", 0)}});
  double at = begin;
  for (const char* part : {"data", "compute", "blocked"}) {
    const double seconds = arguments.value(part, 0.0);
    if (seconds > 0)
      to.span(process, lane_steps, part, part == std::string("blocked") ? "wait for peers" : part, at,
              std::min(end, at + seconds));
    at = std::min(end, at + seconds);
  }
}

/// Returns how many events found no room.
std::uint64_t write_host(trace_writer& to, int process, const host_trace& host) {
  std::uint64_t left_out = 0;
  to.name_process(process, host.host);
  to.name_thread(process, lane_windows, "windows");
  to.name_thread(process, lane_steps, "training");
  const double offset = host.clock.seconds;
  for_each_line(host.path, [&](const nlohmann::json& line) {
    const auto kind = line.value("kind", "");
    const bool fine = kind == "step" || kind == "collective";
    if (fine && !to.room()) {
      ++left_out;
    } else if (kind == "step") {
      write_step(to, process, line, offset);
    } else if (kind == "collective") {
      to.overlapping(process, lane_steps, kind, line.value("name", ""), line.value("begin", 0.0) - offset,
                     line.value("end", 0.0) - offset, json(line.value("args", nlohmann::json::object())));
    } else if (kind == "window") {
      to.span(process, lane_windows, "window", line.value("name", ""), line.value("begin", 0.0) - offset,
              line.value("end", 0.0) - offset, json(line.value("args", nlohmann::json::object())));
    } else if (kind == "decision") {
      to.add({{"ph", "i"},
              {"s", "t"},
              {"cat", "decision"},
              {"name", "decision " + std::to_string(line.value("window", std::uint64_t{0})) + " arrives"},
              {"pid", process},
              {"tid", lane_windows},
              {"ts", to.micros(line.value("at", 0.0) - offset)},
              {"args", json::object()}});
    }
  });
  return left_out;
}

json decision_arguments(const ledger::window& window) {
  json arguments = {{"term", window.key.term},
                    {"generation", window.generation},
                    {"policy_version", window.policy_version},
                    {"guard", window.guard}};
  for (std::size_t i = 0; i < std::min(window.workers.size(), counted_workers); ++i)
    arguments[window.workers[i].report.host] =
        std::to_string(window.workers[i].assigned_batch) + " -> " + std::to_string(window.workers[i].decided_batch);
  return arguments;
}

void write_window(trace_writer& to, const ledger::window& window, double decided) {
  const double began = decided - window.decide_seconds;
  const auto number = std::to_string(window.key.window);
  // A worker may report the next window before this one has all reports.
  to.overlapping(0, lane_gathering, "gather", "gather " + number, began - window.gather_seconds, began, json::object());
  to.span(0, lane_deciding, "decide", (window.decided ? "decide " : "last ") + number, began, decided,
          decision_arguments(window));
  if (window.workers.size() > counted_workers)
    return;
  json batches = json::object();
  for (const auto& worker : window.workers)
    batches[worker.report.host] = worker.decided_batch;
  to.counter(0, "decided batch sizes", decided, std::move(batches));
}

void write_ledger(trace_writer& to, const std::vector<ledger::row>& rows) {
  to.name_process(0, "arbitrator");
  to.name_thread(0, lane_gathering, "gathering reports");
  to.name_thread(0, lane_deciding, "deciding");
  to.name_thread(0, lane_events, "events");
  ledger::start start;
  std::string clock;
  for (const auto& row : rows) {
    if (const auto* begun = std::get_if<ledger::start>(&row.entry)) {
      start = *begun;
      clock = clock.empty() ? start.clock : clock;
    }
    if (start.origin_seconds == 0 || start.clock != clock)
      continue; // an arbitrator on another machine: its clock's offset is not known
    const double at = start.origin_seconds + row.at_seconds;
    if (const auto* window = std::get_if<ledger::window>(&row.entry))
      write_window(to, *window, at);
    else if (const auto* generation = std::get_if<ledger::generation>(&row.entry))
      to.instant(0, lane_events, "generation " + std::to_string(generation->generation), at,
                 {{"members", generation->members.size()}, {"reason", generation->reason}});
    else if (const auto* event = std::get_if<ledger::event>(&row.entry))
      to.instant(0, lane_events,
                 std::string(messages::name_of(event->event)) + (event->host.empty() ? "" : " " + event->host), at,
                 {{"text", event->text}});
    else if (const auto* policy = std::get_if<ledger::policy_version>(&row.entry))
      to.instant(0, lane_events, "policy version " + std::to_string(policy->version), at);
    else if (const auto* evaluation = std::get_if<ledger::evaluation>(&row.entry))
      to.counter(0, "test accuracy", at, {{"percent", 100 * evaluation->report.test_accuracy}});
  }
}

/// The earliest moment that is drawn, on the arbitrator's clock.
double base_of(const std::vector<host_trace>& hosts, const std::vector<ledger::row>& rows) {
  double base = std::numeric_limits<double>::infinity();
  for (const auto& row : rows)
    if (const auto* start = std::get_if<ledger::start>(&row.entry); start != nullptr && start->origin_seconds > 0)
      base = std::min(base, start->origin_seconds);
  for (const auto& host : hosts)
    base = std::min(base, host.first_seconds - host.clock.seconds);
  return std::isfinite(base) ? base : 0;
}

} // namespace

clock_offset offset_of(const host_moments& host, const std::vector<ledger::row>& rows) {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  ledger::start start;
  for (const auto& row : rows) {
    if (const auto* begun = std::get_if<ledger::start>(&row.entry))
      start = *begun;
    if (!host.clock.empty() && host.clock == start.clock)
      return {.seconds = 0, .bound_seconds = 0, .known = true};
    const auto* window = std::get_if<ledger::window>(&row.entry);
    if (window == nullptr || start.origin_seconds == 0)
      continue;
    const double decided = start.origin_seconds + row.at_seconds;
    if (const auto report = host.reports.find({window->generation, window->key.window}); report != host.reports.end())
      low = std::max(low, report->second - (decided - window->decide_seconds));
    if (const auto decision = host.decisions.find({window->key.term, window->key.window});
        decision != host.decisions.end())
      high = std::min(high, decision->second - decided);
  }
  if (!std::isfinite(low) || !std::isfinite(high))
    return {};
  return {.seconds = (low + high) / 2, .bound_seconds = std::abs(high - low) / 2, .known = true};
}

trace_outcome join_traces(const std::string& run, const std::string& path, std::uint64_t bytes_max) {
  trace_outcome outcome;
  std::vector<host_trace> hosts;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run + "/traces", error))
    if (entry.path().extension() == ".jsonl")
      hosts.push_back(scan(entry.path().string()));
  if (hosts.empty())
    return {.problem = run + " holds no traces; give `local` or `run` the flag --trace", .clocks = {}};
  std::ranges::sort(hosts, {}, &host_trace::host);
  std::string no_ledger;
  const auto rows = ledger::read_file(run_directory(run).ledger(), no_ledger);
  for (auto& host : hosts)
    outcome.clocks[host.host] = host.clock = offset_of(host.moments, rows);

  std::ofstream file(path);
  trace_writer to(file, base_of(hosts, rows), bytes_max);
  write_ledger(to, rows);
  for (int process = 1; const auto& host : hosts)
    outcome.left_out += write_host(to, process++, host);
  outcome.events = to.events();
  json clocks = json::object();
  for (const auto& [host, clock] : outcome.clocks)
    clocks[host] = {{"offset_seconds", clock.seconds},
                    {"bound_seconds", clock.known ? json(clock.bound_seconds) : json()}};
  to.finish({{"clocks", clocks}, {"left_out", outcome.left_out}});
  file.close();
  if (!file)
    outcome.problem = "cannot write " + path + ": " + std::strerror(errno);
  return outcome;
}

std::string to_text(const trace_outcome& outcome, const std::string& path) {
  std::string text = grouped(outcome.events) + " events of " + grouped(outcome.clocks.size()) + " hosts: " + path +
                     " (open it in https://ui.perfetto.dev or chrome://tracing)\n";
  for (const auto& [host, clock] : outcome.clocks)
    if (!clock.known)
      text += "  the clock of " + host + " could not be compared with the arbitrator's: its times are its own\n";
    else if (clock.bound_seconds > 0)
      text += "  the clock of " + host + " is " + fixed(1e3 * clock.seconds, 3) +
              " ms from the arbitrator's, give or take " + fixed(1e3 * clock.bound_seconds, 3) + " ms\n";
  if (outcome.left_out > 0)
    text += "  " + grouped(outcome.left_out) + " steps and collectives were left out for lack of room\n";
  return text;
}

} // namespace dynamix::node
