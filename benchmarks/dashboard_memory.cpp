/// 24 h of windows, one a second, folded into the live page's state: its memory and what a window costs.

#include "dashboard/state_json.hpp"
#include "ledger/run.hpp"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

namespace {

using namespace dynamix;

constexpr std::uint64_t day_windows = 86'400;

cluster::cluster_file cluster_of(std::uint32_t workers) {
  return cluster::parse_cluster_text("[cluster]\nname = \"day\"\n[[host]]\nname = \"hub\"\nport = 1000\nroles = "
                                     "[\"arbitrator\"]\n[[host]]\nname = \"w\"\nport = 1001\ncount = " +
                                         std::to_string(workers) + "\n",
                                     "day.toml")
      .file;
}

double resident_mib() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmRSS:"))
      return std::stod(line.substr(6)) / 1024;
  return 0;
}

void fold_a_day(std::uint32_t workers) {
  const auto file = cluster_of(workers);
  ledger::window window;
  for (const auto* host : file.workers()) {
    ledger::worker worker;
    worker.report.host = host->name;
    worker.report.training = {.steps = 10, .samples = 640, .accuracy = 0.5, .loss = 1, .iteration_seconds = 0.1};
    worker.probabilities.assign(18, 1.0F / 18);
    worker.state.assign(39, 0.5F);
    window.workers.push_back(worker);
  }
  const double before = resident_mib();
  ledger::run run(file);
  const auto begin = std::chrono::steady_clock::now();
  ledger::row row{.entry = window};
  for (std::uint64_t i = 1; i <= day_windows; ++i) {
    auto& now = std::get<ledger::window>(row.entry);
    now.key = {1, i};
    for (auto& worker : now.workers) {
      worker.report.elapsed_seconds = static_cast<double>(i);
      worker.report.batch = static_cast<std::uint32_t>(64 + i % 64);
    }
    run.add(row);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto text = dashboard::state_json(run, {});
  std::printf("%5u workers: %llu windows, %.1f MiB, %.0f us a window, %.2f MB of JSON for a page\n", workers,
              static_cast<unsigned long long>(run.totals().windows), resident_mib() - before,
              1e6 * seconds / static_cast<double>(day_windows), static_cast<double>(text.size()) / 1e6);
}

} // namespace

int main() {
  for (const std::uint32_t workers : {4U, 1024U})
    fold_a_day(workers);
}
