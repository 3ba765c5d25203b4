#include "policy/measured_cluster.hpp"
#include "policy/rivals.hpp"

#include <algorithm>
#include <cstdio>

namespace dynamix::policy {
namespace {

class goodput_controller final : public joint_controller {
public:
  std::string name() const override { return "goodput"; }
  std::vector<choice> choose_all(const observation& observed) override;
};

std::string explain(const measured_cluster& measured, std::size_t worker, const batch_plan& chosen, double gain) {
  char noise[48] = "noise scale not measured yet";
  if (measured.early())
    std::snprintf(noise, sizeof noise, "the first steps of training");
  else if (measured.noise_scale() >= 0)
    std::snprintf(noise, sizeof noise, "noise scale %.0f", measured.noise_scale());
  char text[256];
  if (!measured.measured(worker))
    std::snprintf(text, sizeof text, "not measured yet, counts as an average worker");
  else
    std::snprintf(text, sizeof text, "computes %u of %llu samples in %.1f ms, the slowest in %.1f ms",
                  chosen.batches[worker], static_cast<unsigned long long>(chosen.total),
                  1e3 * measured.seconds(worker, chosen.batches[worker]), 1e3 * chosen.slowest_seconds);
  char rest[128];
  std::snprintf(rest, sizeof rest, "; exchange %.1f ms, %s: goodput %+.0f %%", 1e3 * measured.exchange_seconds(), noise,
                100 * (gain - 1));
  return std::string(text) + rest;
}

std::vector<choice> goodput_controller::choose_all(const observation& observed) {
  check(observed);
  const auto& measured = *observed.measured;
  if (!measured.any_measured())
    return keep_assigned(observed, "no worker measured yet");
  const auto now = measured.judge(observed.assigned);
  // Where phi tells nothing there is no telling whether a larger global batch is worth it.
  const auto [reason, best] = measured.worthwhile(
      measured.noise_known() ? measured.best() : measured.split(std::max(now.total, measured.least_planned())),
      observed.assigned);
  if (best.batches == observed.assigned)
    return keep_assigned(observed, reason);
  const auto gain = best.goodput / now.goodput;
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < measured.size(); ++i)
    reasons.push_back(explain(measured, i, best, gain));
  return choose(observed, best.batches, reasons);
}

} // namespace

std::unique_ptr<joint_controller> make_goodput() {
  return std::make_unique<goodput_controller>();
}

} // namespace dynamix::policy
