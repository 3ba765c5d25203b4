#include "node/launch/host_display.hpp"

#include "dashboard/dashboard.hpp"
#include "ledger/file.hpp"
#include "ledger/progress.hpp"
#include "ledger/text.hpp"
#include "node/reports/report.hpp"

#include <chrono>
#include <condition_variable>
#include <fmt/core.h>
#include <mutex>

namespace dynamix::node {
namespace {

constexpr std::chrono::milliseconds progress_look_interval{200};

std::string roles_of(const cluster::host& host) {
  return ledger::listed(host.roles, [](cluster::role role) { return std::string(cluster::to_string(role)); });
}

} // namespace

host_display::host_display(const cluster::cluster_file& file, const cluster::host& host, const run_directory& run,
                           std::ostream& out)
    : file_(file), host_(host), run_(run), live_(out, output_style::detect()) {}

void host_display::begin(bool page) {
  const bool arbitrates = host_.has(cluster::role::arbitrator);
  live_.print(arbitrates ? fmt::format("{}: {} workers, policy {}, seed {}, run directory {}", file_.name,
                                       file_.workers().size(), cluster::to_string(file_.arbitrator.policy), file_.seed,
                                       run_.path())
                         : fmt::format("{}: {} of {}, run directory {}, log {}", host_.name, roles_of(host_),
                                       file_.name, run_.path(), run_.log(host_.name)));
  if (page)
    live_.print("page " + dashboard::url_of(file_));
  if (arbitrates)
    follower_ = std::jthread([this](const std::stop_token& stop) { follow(stop); });
}

void host_display::follow(const std::stop_token& stop) {
  ledger::tail tail(run_.ledger());
  tail.read(); // an earlier life's rows are not this one's progress
  ledger::progress now;
  std::mutex mutex;
  std::condition_variable_any waits;
  std::unique_lock lock(mutex);
  while (!waits.wait_for(lock, stop, progress_look_interval, [&] { return stop.stop_requested(); })) {
    for (const auto& row : tail.read())
      now.add(row);
    live_.progress(ledger::progress_line(now));
  }
}

void host_display::end(const run_summary* results, const std::string& reason) {
  if (follower_.joinable()) {
    follower_.request_stop();
    follower_.join();
  }
  if (results == nullptr)
    return live_.print(host_.name + " has ended: " + reason);
  live_.heading("\nworkers");
  live_.print(workers_table(*results));
  live_.heading("result");
  live_.print(result_block(*results));
  live_.print("run directory: " + run_.path());
}

} // namespace dynamix::node
