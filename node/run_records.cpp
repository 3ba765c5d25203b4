#include "node/run_records.hpp"

#include "ledger/codec.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <fstream>
#include <map>

namespace dynamix::node {
namespace {

constexpr std::size_t worker_file_bytes_max = 16U << 20;

/// Evaluations by step, farewells by host; a worker's own file counts more than the ledger.
struct told {
  std::map<std::uint64_t, messages::evaluation_report> evaluations;
  std::map<std::string, messages::farewell> farewells;

  void add(const ledger::row& row) {
    if (std::holds_alternative<ledger::start>(row.entry))
      farewells.clear(); // those before belong to an earlier life of the run
    if (const auto* evaluation = std::get_if<ledger::evaluation>(&row.entry))
      evaluations[evaluation->report.step] = evaluation->report;
    if (const auto* farewell = std::get_if<ledger::farewell>(&row.entry))
      farewells[farewell->farewell.host] = farewell->farewell;
    const auto* event = std::get_if<ledger::event>(&row.entry);
    if (event != nullptr && event->event == "joined")
      farewells.erase(event->host); // what its process before said last is no longer the last
  }

  void add_file(const std::string& path, const std::string& host) {
    auto file = read_worker_file(path);
    if (!file)
      return;
    auto& farewell = file->farewell;
    // Only what went through the host's telemetry knows the telemetry's cost.
    farewell.telemetry_seconds = std::max(farewell.telemetry_seconds, farewells[host].telemetry_seconds);
    farewells[host] = farewell;
    for (const auto& each : file->evaluations)
      evaluations[each.step] = each;
  }
};

} // namespace

void run_records::add(const ledger::row& row) {
  course.add(row);
  live.take(row);
  if (std::holds_alternative<ledger::start>(row.entry) || std::holds_alternative<ledger::event>(row.entry) ||
      std::holds_alternative<ledger::policy_version>(row.entry))
    rows.push_back(row);
}

std::optional<worker_file> read_worker_file(const std::string& path) {
  std::string text;
  worker_file read;
  if (!storage::read_file(path, worker_file_bytes_max, text).empty() ||
      !ledger::parse_worker_file(text, read.farewell, read.evaluations))
    return std::nullopt;
  return read;
}

run_records read_run(const run_directory& run, std::string& error) {
  auto parsed = cluster::read_cluster_file(run.cluster_file());
  if (!parsed.errors.empty()) {
    error = run.path() + " is no run directory: " + cluster::to_string(parsed.errors.front());
    return run_records();
  }
  error.clear();
  run_records records(std::move(parsed.file));
  told all;
  std::ifstream ledger(run.ledger()); // there is none before the arbitrator's first line
  for (std::string line; std::getline(ledger, line);)
    if (const auto row = ledger::parse_line(line)) {
      records.add(*row);
      all.add(*row);
    }
  for (const auto* worker : records.file.workers())
    all.add_file(run.worker(worker->name), worker->name);
  for (const auto& [step, evaluation] : all.evaluations)
    records.evaluations.push_back(evaluation);
  for (const auto& [host, farewell] : all.farewells)
    records.farewells.push_back(farewell);
  std::ranges::sort(records.farewells, {}, &messages::farewell::rank);
  return records;
}

} // namespace dynamix::node
