#include "telemetry/window_meter.hpp"

#include <algorithm>
#include <time.h>
#include <utility>

namespace dynamix::telemetry {

namespace {

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

} // namespace

window_meter::window_meter(std::vector<signal_chain> chains) : chains_(std::move(chains)) {
  sample();
  before_ = now_;
}

void window_meter::sample() {
  now_ = {};
  now_.monotonic_seconds = monotonic_seconds();
  for (auto& chain : chains_)
    while (!chain.best_first.empty()) {
      auto& best = *chain.best_first.front();
      best.sample(now_);
      if (is_valid(now_, chain.of))
        break;
      chain.reason += (chain.reason.empty() ? "" : "; ") + best.problem();
      chain.best_first.erase(chain.best_first.begin());
      chosen_anew_ = true;
    }
}

std::string window_meter::choice() const {
  std::string text;
  for (const auto& chain : chains_) {
    text += (text.empty() ? "" : "\n") + std::string(to_string(chain.of)) + ": ";
    text += chain.best_first.empty() ? "none" : chain.best_first.front()->name();
    text += chain.reason.empty() ? "" : ", since " + chain.reason;
  }
  return text;
}

window_measurement window_meter::close_window() {
  const double began = thread_cpu_seconds();
  sample();
  window_measurement measured;
  measured.network = network_between(before_, now_);
  measured.system = system_between(before_, now_);
  measured.gpu = now_.gpu;
  measured.program_seconds = std::max(0.0, now_.program_seconds - before_.program_seconds);
  if (std::exchange(chosen_anew_, false))
    measured.choice = choice();
  before_ = now_;
  measured.sampling_seconds = thread_cpu_seconds() - began;
  return measured;
}

} // namespace dynamix::telemetry
