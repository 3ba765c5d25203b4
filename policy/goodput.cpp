#include "policy/rivals.hpp"
#include "policy/step_time_table.hpp"
#include "policy/water_filling.hpp"
#include "policy/worker_memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

namespace dynamix::policy {
namespace {

constexpr double worthwhile_gain = 1.02; ///< of goodput
constexpr double growth_max = 2;         ///< over the largest global batch that has run
constexpr double noise_weight = 0.1;     ///< of the newest window
const double candidate_ratio = std::exp2(1.0 / 8);

struct timing {
  step_time_table computing;
  double blocked_seconds = -1; ///< in the exchange; negative while not measured
};

/// A way to split a global batch, and what it promises.
struct plan {
  std::vector<std::uint32_t> batches;
  std::uint64_t total = 0;
  double slowest_seconds = 0;
  double goodput = 0; ///< samples a second, each as good as one of the initial global batch
};

class goodput_controller final : public controller {
public:
  explicit goodput_controller(const cluster::batch& limits) : limits_(limits) {}
  std::string name() const override { return "goodput"; }
  std::vector<choice> decide(const observation& observed) override;

private:
  /// Takes the reports in; the curves in the reports' order, empty where not measured.
  void measure(const messages::shard_report& shard);
  void measure_noise(double sum, std::uint64_t reports);
  std::vector<capacity> capacities() const;
  plan judge(std::vector<std::uint32_t> batches) const;
  plan find_best(std::uint64_t total_now) const;
  std::string explain(std::size_t worker, const plan& chosen, double gain) const;

  cluster::batch limits_;
  worker_memory<timing> timings_;
  double noise_scale_ = -1;       ///< negative while not measured
  std::uint64_t largest_run_ = 0; ///< global batch
  // Of the shard at hand.
  std::vector<step_time_curve> curves_;
  double exchange_seconds_ = 0;
  std::uint64_t initial_ = 0; ///< B0
};

void goodput_controller::measure_noise(double sum, std::uint64_t reports) {
  if (reports == 0)
    return;
  const auto now = sum / static_cast<double>(reports);
  noise_scale_ = noise_scale_ < 0 ? now : noise_scale_ + noise_weight * (now - noise_scale_);
}

void goodput_controller::measure(const messages::shard_report& shard) {
  curves_.clear();
  initial_ = std::uint64_t{limits_.initial} * shard.reports.size();
  exchange_seconds_ = std::numeric_limits<double>::infinity();
  double noise = 0;
  std::uint64_t noises = 0;
  for (const auto& report : shard.reports) {
    const auto [worker, fresh] = timings_.of(report);
    if (fresh) {
      worker.computing.measure(report.batch, report.training.compute_seconds);
      const auto blocked = report.training.exchange_seconds;
      worker.blocked_seconds = worker.blocked_seconds < 0 ? blocked : (worker.blocked_seconds + blocked) / 2;
      largest_run_ = std::max(largest_run_, report.global_batch);
      if (report.training.gradient_valid) {
        noise += report.training.noise_scale;
        ++noises;
      }
    }
    if (worker.blocked_seconds >= 0)
      exchange_seconds_ = std::min(exchange_seconds_, worker.blocked_seconds);
    curves_.push_back(worker.computing.curve());
  }
  measure_noise(noise, noises);
}

std::vector<capacity> goodput_controller::capacities() const {
  const auto average = [this](double seconds) {
    double sum = 0;
    double measured = 0;
    for (const auto& curve : curves_)
      if (!curve.empty()) {
        sum += curve.batch_within(seconds);
        ++measured;
      }
    return sum / measured;
  };
  std::vector<capacity> all;
  for (const auto& curve : curves_)
    if (curve.empty())
      all.emplace_back(average);
    else
      all.emplace_back([&curve](double seconds) { return curve.batch_within(seconds); });
  return all;
}

plan goodput_controller::judge(std::vector<std::uint32_t> batches) const {
  plan judged{.batches = std::move(batches)};
  for (std::size_t i = 0; i < curves_.size(); ++i) {
    judged.total += judged.batches[i];
    if (!curves_[i].empty())
      judged.slowest_seconds = std::max(judged.slowest_seconds, curves_[i].seconds(judged.batches[i]));
  }
  const auto total = static_cast<double>(judged.total);
  const auto efficiency =
      noise_scale_ < 0 ? 1 : (noise_scale_ + static_cast<double>(initial_)) / (noise_scale_ + total);
  judged.goodput = total / (judged.slowest_seconds + exchange_seconds_) * efficiency;
  return judged;
}

plan goodput_controller::find_best(std::uint64_t total_now) const {
  const auto workers = capacities();
  const auto most = static_cast<double>(std::uint64_t{limits_.highest} * workers.size());
  const auto run = static_cast<double>(std::max(largest_run_, initial_));
  const auto cap = std::min(most, growth_max * run);
  const auto split = [&](double total) {
    return judge(water_fill(static_cast<std::uint64_t>(std::llround(total)), workers, limits_));
  };
  if (noise_scale_ < 0)
    return split(static_cast<double>(std::max(total_now, initial_)));
  auto best = split(cap);
  for (auto total = static_cast<double>(initial_); total < cap; total *= candidate_ratio)
    if (auto other = split(total); other.goodput > best.goodput)
      best = std::move(other);
  return best;
}

std::string goodput_controller::explain(std::size_t worker, const plan& chosen, double gain) const {
  char noise[48] = "noise scale not measured yet";
  if (noise_scale_ >= 0)
    std::snprintf(noise, sizeof noise, "noise scale %.0f", noise_scale_);
  char text[256];
  if (curves_[worker].empty())
    std::snprintf(text, sizeof text, "not measured yet, counts as an average worker");
  else
    std::snprintf(text, sizeof text, "computes %u of %llu samples in %.1f ms, the slowest in %.1f ms",
                  chosen.batches[worker], static_cast<unsigned long long>(chosen.total),
                  1e3 * curves_[worker].seconds(chosen.batches[worker]), 1e3 * chosen.slowest_seconds);
  char rest[128];
  std::snprintf(rest, sizeof rest, "; exchange %.1f ms, %s: goodput %+.0f %%", 1e3 * exchange_seconds_, noise,
                100 * (gain - 1));
  return std::string(text) + rest;
}

std::vector<choice> goodput_controller::decide(const observation& observed) {
  check_assigned(observed);
  measure(*observed.report);
  if (std::ranges::all_of(curves_, &step_time_curve::empty))
    return keep_assigned(observed, "no worker measured yet");
  const auto now = judge(observed.assigned);
  const auto best = find_best(now.total);
  const auto gain = best.goodput / now.goodput;
  if (gain < worthwhile_gain && now.total >= initial_) {
    char text[96];
    std::snprintf(text, sizeof text, "no split or global batch gives more than %.0f %% more goodput",
                  100 * (worthwhile_gain - 1));
    return keep_assigned(observed, text);
  }
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < curves_.size(); ++i)
    reasons.push_back(explain(i, best, gain));
  return choose(observed, best.batches, reasons);
}

} // namespace

std::unique_ptr<controller> make_goodput(const cluster::batch& limits) {
  return std::make_unique<goodput_controller>(limits);
}

} // namespace dynamix::policy
