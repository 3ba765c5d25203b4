#include "node/reports/run_records.hpp"

#include "cluster/places.hpp"
#include "ledger/codec.hpp"
#include "ledger/line_reader.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <map>

namespace dynamix::node {
namespace {

constexpr std::size_t worker_file_bytes_max = 16U << 20;

} // namespace

void run_records::add(const ledger::row& row) {
  run.add(row);
  if (const auto* window = std::get_if<ledger::window>(&row.entry))
    recorder.add(*window);
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
  cluster::cluster_file file;
  if (error = read_cluster_of(run, file); !error.empty())
    return run_records();
  run_records records(std::move(file));
  std::map<std::uint64_t, messages::evaluation_report> evaluations; // by step
  ledger::line_reader ledger(run.ledger());                         // there is none before the arbitrator's first line
  const auto tell_of_damage = [&] {
    if (const auto problem = ledger.take_problem(); !problem.empty())
      records.add({.entry = ledger::event{ledger::event_kind::warning, "", problem}});
  };
  for (std::string line; ledger.next(line);) {
    tell_of_damage();
    if (const auto row = ledger::parse_line(line)) {
      records.add(*row);
      if (const auto* evaluation = std::get_if<ledger::evaluation>(&row->entry))
        evaluations[evaluation->report.step] = evaluation->report;
    }
  }
  tell_of_damage(); // behind the last line
  std::vector<std::string> names;
  for (const auto& worker : records.run.workers())
    names.push_back(worker.name);
  records.file = cluster::with_guests(records.run.file(), names);
  auto farewells = records.run.farewells();
  for (const auto* worker : records.file.workers()) {
    auto file = read_worker_file(run.worker(worker->name));
    if (!file) // then what the ledger says holds
      continue;
    // Only what went through the host's telemetry knows the telemetry's cost.
    auto& known = farewells[worker->name];
    file->farewell.telemetry_seconds = std::max(file->farewell.telemetry_seconds, known.telemetry_seconds);
    known = file->farewell;
    for (const auto& each : file->evaluations)
      evaluations[each.step] = each;
  }
  for (const auto& [step, evaluation] : evaluations)
    records.evaluations.push_back(evaluation);
  for (const auto& [host, farewell] : farewells)
    records.farewells.push_back(farewell);
  std::ranges::sort(records.farewells, {}, &messages::farewell::rank);
  return records;
}

} // namespace dynamix::node
