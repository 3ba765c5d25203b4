#include "node/run_directory.hpp"

#include "storage/atomic_file.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <map>

namespace dynamix::node {
namespace {

constexpr std::size_t worker_file_bytes_max = 16U << 20;

} // namespace

bool run_directory::exists() const {
  std::error_code ignored;
  return std::filesystem::exists(path_, ignored);
}

bool run_directory::empty() const {
  std::error_code error;
  return !exists() || (std::filesystem::is_empty(path_, error) && !error);
}

std::string run_directory::create() const {
  for (const std::string below : {"/logs", "/workers", "/checkpoints"}) {
    std::error_code error;
    std::filesystem::create_directories(path_ + below, error);
    if (error)
      return "cannot make " + path_ + below + ": " + error.message();
  }
  return "";
}

std::string default_run_path(const cluster::cluster_file& file) {
  return default_run_path(file.name + "-" + std::string(cluster::to_string(file.arbitrator.policy)));
}

std::string default_run_path(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &utc);
  return "runs/" + name + "-" + text.data();
}

std::string write_cluster_copy(const run_directory& run, const cluster::cluster_file& file) {
  return storage::write_file_atomically(run.cluster_file(),
                                        "# " + file.path +
                                            " as this run used it: defaults and the command line's changes "
                                            "are written out.\n\n" +
                                            cluster::to_toml(file));
}

run_records read_run(const run_directory& run, std::string& error) {
  run_records records;
  auto parsed = cluster::read_cluster_file(run.cluster_file());
  if (!parsed.errors.empty()) {
    error = run.path() + " is no run directory: " + cluster::to_string(parsed.errors.front());
    return records;
  }
  error.clear();
  records.file = std::move(parsed.file);
  std::string no_ledger; // before the arbitrator's first line
  records.rows = actors::read_ledger(run.ledger(), no_ledger);

  std::map<std::uint64_t, messages::evaluation_report> evaluations;
  std::map<std::string, messages::farewell> farewells;
  for (const auto& row : records.rows) {
    if (std::holds_alternative<actors::ledger_start>(row.entry))
      farewells.clear(); // those before belong to an earlier life of the run
    if (const auto* evaluation = std::get_if<actors::ledger_evaluation>(&row.entry))
      evaluations[evaluation->report.step] = evaluation->report;
    if (const auto* farewell = std::get_if<actors::ledger_farewell>(&row.entry))
      farewells[farewell->farewell.host] = farewell->farewell;
  }
  for (const auto* worker : records.file.workers()) {
    std::string text;
    messages::farewell farewell;
    std::vector<messages::evaluation_report> own;
    if (!storage::read_file(run.worker(worker->name), worker_file_bytes_max, text).empty() ||
        !actors::parse_worker_file(text, farewell, own))
      continue;
    // Only what went through the host's telemetry knows the telemetry's cost.
    farewell.telemetry_seconds = std::max(farewell.telemetry_seconds, farewells[worker->name].telemetry_seconds);
    farewells[worker->name] = farewell;
    for (const auto& each : own)
      evaluations[each.step] = each;
  }
  for (const auto& [step, evaluation] : evaluations)
    records.evaluations.push_back(evaluation);
  for (const auto& [host, farewell] : farewells)
    records.farewells.push_back(farewell);
  std::sort(records.farewells.begin(), records.farewells.end(),
            [](const auto& left, const auto& right) { return left.rank < right.rank; });
  return records;
}

} // namespace dynamix::node
