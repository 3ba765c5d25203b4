#include "node/tensorboard.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <unistd.h>

namespace dynamix::node {
namespace {

constexpr std::size_t workers_max = 64;
constexpr std::chrono::seconds interval{1};

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Of "2026-11-21T18:15:15Z"; 0 for anything else.
double seconds_of(const std::string& utc) {
  std::tm time{};
  const char* end = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  return end == nullptr || *end != '\0' ? 0 : static_cast<double>(::timegm(&time));
}

std::vector<scalar> scalars_of(const messages::evaluation_report& report) {
  return {{"accuracy/test", report.test_accuracy},
          {"loss/test", report.test_loss},
          {"loss/train", report.train_loss},
          {"learning_rate", report.learning_rate}};
}

std::vector<scalar> scalars_of(const ledger::policy_version& policy) {
  return {{"learner/version", static_cast<double>(policy.version)},
          {"learner/policy_loss", policy.policy_loss},
          {"learner/value_loss", policy.value_loss},
          {"learner/entropy", policy.entropy},
          {"learner/approximate_kl", policy.approximate_kl},
          {"learner/clip_fraction", policy.clip_fraction}};
}

std::string host_name() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

} // namespace

std::vector<scalar> scalar_reader::scalars_of(const ledger::window& window) {
  const auto row = columns_.add(window);
  static constexpr std::pair<column, const char*> tags[] = {{column::batch_accuracy, "accuracy/batch"},
                                                            {column::batch_loss, "loss/batch"},
                                                            {column::samples_per_second, "samples_per_second"},
                                                            {column::global_batch, "batch/global"},
                                                            {column::noise_scale, "noise_scale"},
                                                            {column::reward, "reward/mean"},
                                                            {column::reward_low, "reward/lowest"},
                                                            {column::entropy, "policy/entropy_share"},
                                                            {column::guarded, "policy/guarded"},
                                                            {column::compute, "step_seconds/compute"},
                                                            {column::exchange, "step_seconds/exchange"},
                                                            {column::data, "step_seconds/data"},
                                                            {column::cpu_wait, "step_seconds/cpu_wait"},
                                                            {column::network, "step_seconds/network"},
                                                            {column::barrier, "step_seconds/barrier"},
                                                            {column::other, "step_seconds/other"}};
  std::vector<scalar> scalars;
  for (const auto& [which, tag] : tags)
    scalars.push_back({tag, row[static_cast<std::size_t>(which)]});
  const auto batch = [](const ledger::worker& worker) { return worker.report.batch; };
  if (window.workers.size() <= workers_max) {
    for (const auto& worker : window.workers)
      scalars.push_back({"batch/" + worker.report.host, static_cast<double>(worker.report.batch)});
  } else {
    scalars.push_back({"batch/largest", static_cast<double>(std::ranges::max(window.workers, {}, batch).report.batch)});
    scalars.push_back(
        {"batch/smallest", static_cast<double>(std::ranges::min(window.workers, {}, batch).report.batch)});
  }
  return scalars;
}

std::optional<scalar_reader::moment> scalar_reader::read(const ledger::row& row) {
  moment made{.wall_seconds = started_seconds_ + row.at_seconds, .step = step_, .scalars = {}};
  if (const auto* start = std::get_if<ledger::start>(&row.entry)) {
    started_seconds_ = seconds_of(start->started_at);
    return std::nullopt;
  }
  if (const auto* window = std::get_if<ledger::window>(&row.entry)) {
    for (const auto& worker : window->workers)
      if (!worker.stale)
        step_ = std::max(step_, worker.report.first_step + worker.report.training.steps);
    made.step = step_;
    made.scalars = scalars_of(*window);
  } else if (const auto* evaluation = std::get_if<ledger::evaluation>(&row.entry)) {
    made.step = evaluation->report.step;
    made.scalars = node::scalars_of(evaluation->report);
  } else if (const auto* policy = std::get_if<ledger::policy_version>(&row.entry)) {
    made.scalars = node::scalars_of(*policy);
  } else {
    return std::nullopt;
  }
  return made;
}

tensorboard_log::tensorboard_log(const std::string& ledger, const std::string& directory, bool skip,
                                 std::string& problem)
    : tail_(ledger) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const double now = now_seconds();
  const auto path = directory + "/events.out.tfevents." + std::to_string(static_cast<std::uint64_t>(now)) + "." +
                    host_name() + "." + std::to_string(::getpid());
  file_.open(path, std::ios::binary | std::ios::app);
  file_ << to_record(version_event(now)) << std::flush;
  if (!file_) {
    problem = "cannot write " + path + ": " + std::strerror(errno);
    return;
  }
  if (skip)
    for (const auto& row : tail_.read())
      reader_.read(row);
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any woken;
    std::unique_lock lock(mutex);
    while (!woken.wait_for(lock, stop, interval, [&] { return stop.stop_requested(); }))
      look();
  });
}

tensorboard_log::~tensorboard_log() {
  if (!thread_.joinable())
    return;
  thread_.request_stop();
  thread_.join();
  look();
}

void tensorboard_log::look() {
  for (const auto& row : tail_.read())
    if (const auto told = reader_.read(row))
      if (const auto event = scalar_event(told->wall_seconds, told->step, told->scalars); !event.empty())
        file_ << to_record(event);
  file_.flush();
}

} // namespace dynamix::node
