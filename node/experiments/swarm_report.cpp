#include "node/experiments/swarm_report.hpp"

#include "cluster/text_table.hpp"
#include "node/reports/text.hpp"
#include "storage/percentiles.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fmt/core.h>

namespace dynamix::node {
namespace {

using nlohmann::ordered_json;
using storage::percentiles;

constexpr std::uint64_t detect_ms_highest = 60000; ///< in a cluster file
constexpr double bytes_a_kib = 1024;
constexpr double bytes_a_mib = 1024 * 1024;

std::string milliseconds_text(double seconds) {
  return fixed(1000 * seconds, seconds < 0.01 ? 2 : 1);
}

std::vector<std::string> latency_row(const std::string& name, const std::vector<float>& seconds) {
  const auto all = storage::percentiles_of(seconds);
  if (all.count == 0)
    return {name, "-", "-", "-", "-"};
  return {name, milliseconds_text(all.p50), milliseconds_text(all.p90), milliseconds_text(all.p99),
          milliseconds_text(all.max)};
}

/// Bytes that came with the workers, a worker.
double growth_of(const level_usage& level, std::uint32_t workers) {
  const auto grown = std::max(level.memory_bytes, level.idle_bytes) - level.idle_bytes;
  return static_cast<double>(grown) / workers;
}

double share_of_core(double cpu_seconds, const swarm::swarm_outcome& outcome) {
  return outcome.measured_seconds > 0 ? cpu_seconds / outcome.measured_seconds : 0;
}

/// Seconds of CPU for one worker's window.
double service_seconds(const level_usage& level, const swarm_result& result) {
  const auto windows = static_cast<double>(result.outcome.windows) * result.workers;
  return windows > 0 ? level.cpu_seconds / windows : 0;
}

std::string levels_table(const swarm_result& result) {
  std::vector<std::vector<std::string>> rows = {{"level", "processes", "CPU of a core", "busiest",
                                                 "us a worker's window", "messages", "MiB before", "MiB after",
                                                 "KiB per worker"}};
  for (const auto& level : result.levels)
    rows.push_back({level.name, std::to_string(level.processes),
                    percent(share_of_core(level.cpu_seconds, result.outcome), 1),
                    percent(share_of_core(level.busiest_cpu_seconds, result.outcome), 1),
                    fixed(1e6 * service_seconds(level, result), 1), level.messages == 0 ? "-" : grouped(level.messages),
                    fixed(static_cast<double>(level.idle_bytes) / bytes_a_mib, 1),
                    fixed(static_cast<double>(level.memory_bytes) / bytes_a_mib, 1),
                    fixed(growth_of(level, result.workers) / bytes_a_kib, 1)});
  return cluster::text_table(rows, 2);
}

ordered_json latency_json(const std::vector<float>& seconds) {
  const auto all = storage::percentiles_of(seconds);
  return {{"p50_ms", 1000 * all.p50},
          {"p90_ms", 1000 * all.p90},
          {"p99_ms", 1000 * all.p99},
          {"max_ms", 1000 * all.max},
          {"count", all.count}};
}

ordered_json level_json(const level_usage& level, const swarm_result& result) {
  return {{"level", level.name},
          {"processes", level.processes},
          {"cpu_seconds", level.cpu_seconds},
          {"share_of_a_core", share_of_core(level.cpu_seconds, result.outcome)},
          {"busiest_share_of_a_core", share_of_core(level.busiest_cpu_seconds, result.outcome)},
          {"microseconds_a_worker_and_window", 1e6 * service_seconds(level, result)},
          {"messages", level.messages},
          {"idle_bytes", level.idle_bytes},
          {"memory_bytes", level.memory_bytes},
          {"bytes_a_worker", growth_of(level, result.workers)}};
}

} // namespace

std::string swarm_text(const swarm_result& result) {
  const auto& outcome = result.outcome;
  std::string text = "decision latency\n";
  text += cluster::text_table({{"ms", "p50", "p90", "p99", "max"},
                               latency_row("window's end to decision applied", outcome.end_to_applied),
                               latency_row("own report sent to decision applied", outcome.sent_to_applied),
                               latency_row("window's end to its last decision applied", outcome.last_applied)},
                              2);
  if (!result.killed.empty()) {
    const auto after = storage::percentiles_of(result.after_kill);
    text += fmt::format("{}, which led, was killed before window {}: {}\n", result.killed, result.killed_before,
                        after.count == 0 ? "none of its decisions was applied"
                                         : fmt::format("its decisions were applied {} ms (p50), {} ms (p99) and {} ms "
                                                       "(max) after its end",
                                                       milliseconds_text(after.p50), milliseconds_text(after.p99),
                                                       milliseconds_text(after.max)));
  }
  text += "levels\n" + levels_table(result);
  text += "result\n";
  text += cluster::text_table(
      {{"joined", fixed(outcome.join_seconds, 2) + " s for " + grouped(result.workers) + " workers, " +
                      grouped(outcome.whole.hellos) + " hellos"},
       {"windows", grouped(outcome.windows) + ", of which " + grouped(outcome.on_time) + " ended " +
                       grouped(result.interval_ms) + " ms after the one before"},
       {"decisions", grouped(result.decisions_made) + " made, " + grouped(outcome.applied) + " applied, " +
                         grouped(outcome.whole.refused) + " refused, " + grouped(outcome.lost) + " lost"},
       {"farewells", grouped(outcome.farewells) + " of " + grouped(result.workers)}},
      2, cluster::heading::absent);
  if (result.killed.empty() && outcome.whole.hellos > 2 * std::uint64_t{result.workers})
    text +=
        fmt::format("Workers said hello repeatedly: their heartbeats came too late for detect_ms = {}. Where "
                    "that is for lack of cores, try --set cluster.detect_ms={}.\n",
                    result.detect_ms, std::min<std::uint64_t>(4 * std::uint64_t{result.detect_ms}, detect_ms_highest));
  return text;
}

std::string swarm_json(const swarm_result& result) {
  const auto& outcome = result.outcome;
  auto levels = ordered_json::array();
  for (const auto& level : result.levels)
    levels.push_back(level_json(level, result));
  ordered_json all = {{"cluster", result.cluster},
                      {"policy", result.policy},
                      {"topology", result.topology},
                      {"links", result.links},
                      {"workers", result.workers},
                      {"cores", result.cores},
                      {"interval_ms", result.interval_ms},
                      {"windows", outcome.windows},
                      {"windows_on_time", outcome.on_time},
                      {"measured_seconds", outcome.measured_seconds},
                      {"join_seconds", outcome.join_seconds},
                      {"hellos", outcome.whole.hellos},
                      {"window_end_to_applied", latency_json(outcome.end_to_applied)},
                      {"report_sent_to_applied", latency_json(outcome.sent_to_applied)},
                      {"window_end_to_last_applied", latency_json(outcome.last_applied)},
                      {"decisions",
                       {{"expected", outcome.expected},
                        {"made", result.decisions_made},
                        {"applied", outcome.applied},
                        {"refused", outcome.whole.refused},
                        {"lost", outcome.lost}}},
                      {"farewells", outcome.farewells},
                      {"replicas", result.replicas},
                      {"levels", levels}};
  if (!result.killed.empty())
    all["leader_killed"] = {{"host", result.killed},
                            {"before_window", result.killed_before},
                            {"window_end_to_applied", latency_json(result.after_kill)}};
  return all.dump(2) + "\n";
}

std::string swarm_progress(const swarm::swarm_outcome& so_far, std::uint32_t windows) {
  const auto latency = storage::percentiles_of(so_far.end_to_applied);
  return "window " + grouped(so_far.windows) + "/" + grouped(windows) + "  p50 " + milliseconds_text(latency.p50) +
         " ms  p99 " + milliseconds_text(latency.p99) + " ms  lost " + grouped(so_far.lost);
}

} // namespace dynamix::node
