#include "node/launch/host_display.hpp"

#include "dashboard/dashboard.hpp"
#include "ledger/progress.hpp"
#include "node/launch/sleep_for.hpp"
#include "node/reports/report.hpp"

#include <chrono>
#include <fmt/core.h>
#include <utility>

namespace dynamix::node {
namespace {

constexpr std::chrono::milliseconds progress_look_interval{200};

} // namespace

host_display::host_display(const cluster::cluster_file& file, const cluster::host& host, const run_directory& run,
                           std::ostream& out)
    : file_(file), host_(host), run_(run), live_(out, output_style::detect()), tail_(run.ledger()) {
  tail_.skip(); // an earlier life's rows are not this one's progress
}

void host_display::begin(std::shared_ptr<const dashboard::server> page) {
  const bool arbitrates = host_.has(cluster::role::arbitrator);
  live_.print(arbitrates ? fmt::format("{}: {} workers, policy {}, seed {}, run directory {}", file_.name,
                                       file_.workers().size(), cluster::to_string(file_.arbitrator.policy), file_.seed,
                                       run_.path())
                         : fmt::format("{}: {} of {}, run directory {}, log {}", host_.name, cluster::roles_text(host_),
                                       file_.name, run_.path(), run_.log(host_.name)));
  if (arbitrates)
    follower_ = std::jthread(
        [this, page = std::move(page)](const std::stop_token& stop) mutable { follow(stop, std::move(page)); });
}

void host_display::follow(const std::stop_token& stop, std::shared_ptr<const dashboard::server> page) {
  ledger::progress now;
  while (sleep_for(stop, progress_look_interval)) {
    if (page != nullptr && page->listening()) {
      live_.print("page " + dashboard::url_of(file_));
      page.reset();
    }
    for (const auto& row : tail_.read())
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
