/// 24 h of windows, one a second, folded into the live page's state: its memory and what a window costs. And what the
/// ledger's row of one takes to write and to read.

#include "dashboard/state_json.hpp"
#include "ledger/codec.hpp"
#include "ledger/run.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

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

ledger::window window_of(const cluster::cluster_file& file) {
  ledger::window window;
  for (const auto* host : file.workers()) {
    ledger::worker worker;
    worker.report.host = host->name;
    worker.report.training = {.steps = 10, .samples = 640, .accuracy = 0.5, .loss = 1, .iteration_seconds = 0.1};
    worker.probabilities.assign(18, 1.0F / 18);
    worker.state.assign(39, 0.5F);
    window.workers.push_back(worker);
  }
  return window;
}

/// The median of 21 calls.
template <class Work>
double milliseconds_of(Work work) {
  std::vector<double> taken;
  for (int i = 0; i < 21; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    taken.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::nth_element(taken, taken.begin() + 10);
  return taken[10];
}

void write_and_read_a_row(std::uint32_t workers) {
  const ledger::row row{.entry = window_of(cluster_of(workers))};
  const auto line = ledger::to_json_line(row);
  bool read = true;
  const double write_ms = milliseconds_of([&] { read = read && ledger::to_json_line(row).size() == line.size(); });
  const double read_ms = milliseconds_of([&] { read = read && ledger::parse_line(line).has_value(); });
  std::printf("%5u workers: a row of %.2f MB, written in %.2f ms, read in %.2f ms%s\n", workers,
              static_cast<double>(line.size()) / 1e6, write_ms, read_ms, read ? "" : " (WRONG)");
}

void fold_a_day(std::uint32_t workers) {
  const auto file = cluster_of(workers);
  const auto window = window_of(file);
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
  std::printf("%5u workers: %llu windows, %.1f MiB, %.0f us per window, %.2f MB of JSON for a page\n", workers,
              static_cast<unsigned long long>(run.totals().windows), resident_mib() - before,
              1e6 * seconds / static_cast<double>(day_windows), static_cast<double>(text.size()) / 1e6);
}

} // namespace

int main() {
  for (const std::uint32_t workers : {4U, 1024U})
    write_and_read_a_row(workers);
  for (const std::uint32_t workers : {4U, 1024U})
    fold_a_day(workers);
}
