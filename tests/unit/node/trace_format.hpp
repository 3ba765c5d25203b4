#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace dynamix::node::testing {

/// What is wrong with one event by itself, after "Trace Event Format" (Google, 2016) for the phases that we write.
inline std::string find_violation(const nlohmann::json& event) {
  const auto text = [&](const char* name) { return event.contains(name) && event[name].is_string(); };
  const auto integer = [&](const char* name) { return event.contains(name) && event[name].is_number_integer(); };
  const auto time = [&](const char* name) {
    return event.contains(name) && event[name].is_number() && event[name].get<double>() >= 0;
  };
  if (!text("ph") || !text("name") || !integer("pid") || !integer("tid"))
    return "without a phase, a name, a process or a thread";
  const std::string phase = event["ph"];
  if (std::string("XiCMbe").find(phase) == std::string::npos || phase.size() != 1)
    return "of an unknown phase";
  if (event.contains("args") && !event["args"].is_object())
    return "with arguments that are not an object";
  if (phase == "M") {
    static const std::map<std::string, const char*> known = {
        {"process_name", "name"}, {"thread_name", "name"}, {"process_sort_index", "sort_index"}};
    const auto found = known.find(event["name"]);
    return found == known.end() || !event["args"].contains(found->second) ? "metadata that says nothing" : "";
  }
  if (!time("ts"))
    return "without a time, or before the trace";
  if (phase == "X" && !time("dur"))
    return "without a duration, or with a negative one";
  if (phase == "i" && (!text("s") || std::string("gpt").find(event["s"].get<std::string>()) == std::string::npos))
    return "an instant without a scope";
  if (phase == "C" && (event.value("args", nlohmann::json::object()).empty() ||
                       !std::ranges::all_of(event["args"], [](const auto& value) { return value.is_number(); })))
    return "a counter without numbers";
  if ((phase == "b" || phase == "e") && (!text("cat") || !text("id")))
    return "an asynchronous event without category or id";
  return "";
}

/// Complete events of one thread must lie in each other or beside each other; what was begun must end, once, later.
inline std::vector<std::string> find_violations(const nlohmann::json& trace) {
  std::vector<std::string> found;
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array())
    return {"no object with an array of events"};
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> lanes;
  std::map<std::tuple<std::string, std::string, int>, double> begun;
  for (const auto& event : trace["traceEvents"]) {
    if (const auto wrong = find_violation(event); !wrong.empty()) {
      found.push_back(wrong + ": " + event.dump());
      continue;
    }
    const std::string phase = event["ph"];
    if (phase == "X")
      lanes[{event["pid"], event["tid"]}].emplace_back(event["ts"],
                                                       event["ts"].get<double>() + event["dur"].get<double>());
    if (phase != "b" && phase != "e")
      continue;
    const std::tuple<std::string, std::string, int> key(event["cat"], event["id"], event["pid"]);
    if (phase == "b" && !begun.try_emplace(key, event["ts"]).second)
      found.push_back("begun twice: " + event.dump());
    if (phase == "e" && (!begun.contains(key) || begun.extract(key).mapped() > event["ts"].get<double>()))
      found.push_back("ended without a beginning before: " + event.dump());
  }
  for (const auto& [key, time] : begun)
    found.push_back("never ended: " + std::get<1>(key));
  for (auto& [lane, spans] : lanes) {
    std::ranges::sort(spans, [](const auto& left, const auto& right) {
      return left.first != right.first ? left.first < right.first : left.second > right.second;
    });
    std::vector<double> open;
    constexpr double rounding = 0.002; // microseconds
    for (const auto& [begin, end] : spans) {
      while (!open.empty() && open.back() <= begin + rounding)
        open.pop_back();
      if (!open.empty() && end > open.back() + rounding)
        found.push_back("spans overlap at " + std::to_string(begin));
      open.push_back(end);
    }
  }
  return found;
}

} // namespace dynamix::node::testing
