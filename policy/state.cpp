#include "policy/state.hpp"

#include "policy/bounded.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace dynamix::policy {
namespace {

struct inputs {
  const messages::window_report& report;
  double previous_accuracy;
  double assigned_batch;
  const global_sums& global;
  const cluster::batch& limits;
  const plan_view& plan;
};

/// Sums of what peers send stay finite, and so do ratios of sums.
double saturate(double value) {
  return bounded(value, 0, 1e15);
}

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : 0;
}

/// log2 of a ratio; 0 (the neutral value) when either side is missing.
double log2_ratio(double numerator, double denominator) {
  return numerator > 0 && denominator > 0 ? std::log2(saturate(numerator)) - std::log2(saturate(denominator)) : 0;
}

/// A share in [0, 1] as [-1, 1].
double centred(double share) {
  return 2 * bounded(share, 0, 1) - 1;
}

/// lowest -> -1, highest -> 1, on a log scale; 0 where both are the same.
double position(double batch, const cluster::batch& limits) {
  const double width = std::log2(static_cast<double>(limits.highest) / limits.lowest);
  return width > 0 ? 2 * std::log2(std::max(batch, 1.0) / limits.lowest) / width - 1 : 0;
}

/// Samples per second of this worker's own computing: its speed whatever its batch and whoever it waits for.
double speed(const messages::training_statistics& training) {
  return saturate(ratio(static_cast<double>(training.samples), training.steps * saturate(training.compute_seconds)));
}

struct definition {
  state_field field;
  double (*value)(const inputs&);
};

constexpr auto definitions = std::to_array<definition>({
    {{"relative_throughput", "network", "2 * log2(bytes per second / its mean over n workers)"},
     [](const inputs& in) {
       return 2 * log2_ratio(in.report.network.throughput_bytes_per_second,
                             ratio(in.global.throughput, in.global.network_reports));
     }},
    {{"relative_rtt", "network", "log2(round-trip time / its mean over n workers)"},
     [](const inputs& in) {
       return log2_ratio(in.report.network.rtt_seconds, ratio(in.global.rtt_seconds, in.global.network_reports));
     }},
    {{"retransmission_rate", "network", "log10(1 + retransmitted segments per step)"},
     [](const inputs& in) {
       return std::log10(1 + static_cast<double>(in.report.network.retransmissions) /
                                 std::max<std::uint32_t>(in.report.training.steps, 1));
     }},
    {{"cpu_time_ratio", "system", "log2(1 + CPU time / wall time)"},
     [](const inputs& in) { return std::log2(1 + in.report.system.cpu_time_ratio); }},
    {{"run_queue_wait_ratio", "system", "log2(1 + time runnable but waiting / wall time)"},
     [](const inputs& in) { return std::log2(1 + in.report.system.run_queue_wait_ratio); }},
    {{"memory_ratio", "system", "2 * resident set / physical memory - 1"},
     [](const inputs& in) { return centred(in.report.system.memory_ratio); }},
    {{"accuracy", "training", "2 * mean batch accuracy - 1"},
     [](const inputs& in) { return centred(in.report.training.accuracy); }},
    {{"accuracy_gain", "training", "20 * (accuracy - accuracy of the window before); 0 without one"},
     [](const inputs& in) {
       return in.previous_accuracy >= 0 ? 20 * (in.report.training.accuracy - in.previous_accuracy) : 0.0;
     }},
    {{"relative_loss", "training", "2 * log2(mean batch loss / its sample-weighted mean over n workers)"},
     [](const inputs& in) { return 2 * log2_ratio(in.report.training.loss, ratio(in.global.loss, in.global.weight)); }},
    {{"compute_share", "training", "2 * computing time / iteration time - 1"},
     [](const inputs& in) {
       return centred(ratio(in.report.training.compute_seconds, in.report.training.iteration_seconds));
     }},
    {{"exchange_share", "training",
      "2 * time blocked in the exchange / iteration time - 1; the straggler's is the lowest"},
     [](const inputs& in) {
       return centred(ratio(in.report.training.exchange_seconds, in.report.training.iteration_seconds));
     }},
    {{"relative_compute_time", "training", "2 * log2(computing time of a step / its mean over n workers)"},
     [](const inputs& in) {
       return 2 * log2_ratio(in.report.training.compute_seconds, ratio(in.global.compute_seconds, in.global.reports));
     }},
    {{"relative_speed", "training", "2 * log2(samples per second of computing / its mean over n workers)"},
     [](const inputs& in) {
       return 2 * log2_ratio(speed(in.report.training), ratio(in.global.speed, in.global.speed_reports));
     }},
    {{"learning_rate_gain", "training", "log2(gain of the learning-rate rule)"},
     [](const inputs& in) { return log2_ratio(in.report.training.gain, 1); }},
    {{"sigma_norm", "gradient", "log2(1 + sigma_norm) - 1"},
     [](const inputs& in) { return std::log2(1 + in.report.training.sigma_norm) - 1; }},
    {{"sigma2_norm", "gradient", "log2(1 + sigma2_norm) - 2"},
     [](const inputs& in) { return std::log2(1 + in.report.training.sigma2_norm) - 2; }},
    {{"batch_position", "batch", "2 * log2(batch in force / lowest) / log2(highest / lowest) - 1"},
     [](const inputs& in) { return position(in.report.batch, in.limits); }},
    {{"assigned_position", "batch", "the same of the batch last decided, which may not be in force yet"},
     [](const inputs& in) { return position(in.assigned_batch, in.limits); }},
    {{"batch_share", "batch", "log2(n workers * batch in force / sum of the batches in force)"},
     [](const inputs& in) { return log2_ratio(in.report.batch * in.global.reports, in.global.global_batch); }},
    {{"global_accuracy", "global", "2 * sample-weighted mean accuracy - 1"},
     [](const inputs& in) { return centred(ratio(in.global.accuracy, in.global.weight)); }},
    {{"compute_imbalance", "global", "2 * log2(longest computing time of a step / its mean over n workers)"},
     [](const inputs& in) {
       return 2 * log2_ratio(in.global.compute_seconds_max, ratio(in.global.compute_seconds, in.global.reports));
     }},
    {{"batch_spread", "global", "log2(largest / smallest batch in force)"},
     [](const inputs& in) { return log2_ratio(in.global.batch_highest, std::max(in.global.batch_lowest, 1.0)); }},
    {{"noise_over_batch", "noise",
      "0.5 * log2(mean noise scale / sum of the batches in force); above 0 more is useful"},
     [](const inputs& in) {
       const double scale = std::max(ratio(in.global.noise_scale, in.global.noise_weight), 1e-9);
       return 0.5 * log2_ratio(scale, std::max(in.global.global_batch, 1.0));
     }},
    {{"plan_gap", "plan", "log2(planned batch / batch last decided)"},
     [](const inputs& in) { return log2_ratio(in.plan.planned_batch, in.assigned_batch); }},
    {{"plan_total_gap", "plan", "log2(planned global batch / sum of the batches last decided)"},
     [](const inputs& in) { return log2_ratio(in.plan.planned_total, in.plan.assigned_total); }},
    {{"plan_gain", "plan", "2 * log2(predicted goodput of the plan / of the batches last decided)"},
     [](const inputs& in) { return 2 * log2_ratio(in.plan.gain, 1); }},
    {{"surprise", "plan", "2 * log2(computing time of a step / what was expected of this worker)"},
     [](const inputs& in) { return 2 * in.plan.surprise; }},
    {{"largest_surprise", "plan", "the same of the worker with the largest surprise"},
     [](const inputs& in) { return 2 * in.plan.surprise_largest; }},
    {{"jitter", "plan", "10 * root mean square of this worker's log2 surprises, changes of speed left out"},
     [](const inputs& in) { return 10 * in.plan.jitter; }},
    {{"plan_exchange_share", "plan", "2 * exchange / (exchange + longest computing time) - 1"},
     [](const inputs& in) { return centred(in.plan.exchange_over_step); }},
    {{"noise_trend", "plan", "log2(newest noise scale / its moving average)"},
     [](const inputs& in) { return log2_ratio(in.plan.noise_trend, 1); }},
    {{"network_valid", "validity", "1 if the group network was measured, else 0"},
     [](const inputs& in) { return in.report.network.valid ? 1.0 : 0.0; }},
    {{"system_valid", "validity", "1 if the group system was measured, else 0"},
     [](const inputs& in) { return in.report.system.valid ? 1.0 : 0.0; }},
    {{"gradient_valid", "validity", "1 if the group gradient has warmed up, else 0"},
     [](const inputs& in) { return in.report.training.gradient_valid ? 1.0 : 0.0; }},
    {{"noise_valid", "validity", "1 if any worker's gradient statistics have warmed up, else 0"},
     [](const inputs& in) { return in.global.noise_weight > 0 ? 1.0 : 0.0; }},
    {{"plan_valid", "validity", "1 if any worker's computing time was measured, else 0"},
     [](const inputs& in) { return in.plan.valid ? 1.0 : 0.0; }},
});
static_assert(definitions.size() <= messages::max_state_size);

/// Of programs before this one.
constexpr auto former_fields = std::to_array<state_field>({
    {"throughput", "network", "log10(1 + bytes per second / 1e6)"},
    {"rtt", "network", "log10(1 + seconds / 10 us) - 2"},
    {"loss", "training", "log2(1 + mean batch loss) - 1"},
    {"iteration_time", "training", "0.5 * log2(seconds / 0.1 s)"},
    {"global_loss", "global", "log2(1 + sample-weighted mean loss) - 1"},
    {"global_iteration_time", "global", "0.5 * log2(longest iteration / 0.1 s)"},
});

bool masked(std::string_view group, const inputs& in) {
  return (group == "network" && !in.report.network.valid) || (group == "system" && !in.report.system.valid) ||
         (group == "gradient" && !in.report.training.gradient_valid) ||
         (group == "noise" && !(in.global.noise_weight > 0)) || (group == "plan" && !in.plan.valid);
}

} // namespace

std::span<const state_field> state_fields() {
  static const auto fields = [] {
    std::array<state_field, definitions.size()> result;
    std::ranges::transform(definitions, result.begin(), &definition::field);
    return result;
  }();
  return fields;
}

const state_field* find_state_field(std::string_view name) {
  for (const auto& fields : {state_fields(), std::span<const state_field>(former_fields)})
    if (const auto found = std::ranges::find(fields, name, &state_field::name); found != fields.end())
      return &*found;
  return nullptr;
}

std::size_t state_size() {
  return definitions.size();
}

global_sums sum_reports(std::span<const messages::window_report> reports) {
  global_sums sums;
  for (const auto& report : reports) {
    const auto& training = report.training;
    const double samples = saturate(static_cast<double>(training.samples));
    const double batch = report.batch;
    global_sums one{.reports = 1,
                    .weight = samples,
                    .accuracy = samples * bounded(training.accuracy, 0, 1),
                    .loss = samples * saturate(training.loss),
                    .iteration_seconds_max = saturate(training.iteration_seconds),
                    .global_batch = batch,
                    .batch_lowest = batch,
                    .batch_highest = batch,
                    .compute_seconds = saturate(training.compute_seconds),
                    .compute_seconds_max = saturate(training.compute_seconds)};
    if (training.gradient_valid) {
      one.noise_scale = samples * saturate(training.noise_scale);
      one.noise_weight = samples;
    }
    if (const double own_speed = speed(training); own_speed > 0) {
      one.speed = own_speed;
      one.speed_reports = 1;
    }
    if (report.network.valid) {
      one.network_reports = 1;
      one.throughput = saturate(report.network.throughput_bytes_per_second);
      one.rtt_seconds = saturate(report.network.rtt_seconds);
    }
    sums = join(sums, one);
  }
  return sums;
}

global_sums join(const global_sums& left, const global_sums& right) {
  if (left.reports == 0)
    return right;
  if (right.reports == 0)
    return left;
  return {.reports = left.reports + right.reports,
          .weight = left.weight + right.weight,
          .accuracy = left.accuracy + right.accuracy,
          .loss = left.loss + right.loss,
          .iteration_seconds_max = std::max(left.iteration_seconds_max, right.iteration_seconds_max),
          .noise_scale = left.noise_scale + right.noise_scale,
          .noise_weight = left.noise_weight + right.noise_weight,
          .global_batch = left.global_batch + right.global_batch,
          .batch_lowest = std::min(left.batch_lowest, right.batch_lowest),
          .batch_highest = std::max(left.batch_highest, right.batch_highest),
          .compute_seconds = left.compute_seconds + right.compute_seconds,
          .compute_seconds_max = std::max(left.compute_seconds_max, right.compute_seconds_max),
          .speed = left.speed + right.speed,
          .speed_reports = left.speed_reports + right.speed_reports,
          .network_reports = left.network_reports + right.network_reports,
          .throughput = left.throughput + right.throughput,
          .rtt_seconds = left.rtt_seconds + right.rtt_seconds};
}

std::vector<float> normalise(const messages::window_report& report, double previous_accuracy,
                             std::uint32_t assigned_batch, const global_sums& global, const cluster::batch& limits,
                             const plan_view& plan) {
  // What is none of a state's numbers, by a report that lies, is the neutral one.
  const auto entry = [](double value) { return std::isnan(value) ? 0 : bounded(value, -5, 5); };
  const inputs in{report, previous_accuracy, static_cast<double>(assigned_batch), global, limits, plan};
  std::vector<float> state;
  state.reserve(definitions.size());
  for (const auto& [field, value] : definitions)
    state.push_back(masked(field.group, in) ? 0.0F : static_cast<float>(entry(value(in))));
  return state;
}

} // namespace dynamix::policy
