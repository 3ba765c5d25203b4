#include "simulator/window_report.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::simulator {
namespace {

constexpr double retention = 0.97;           // of the trainer's averages, a step
constexpr std::uint64_t warm_up_steps = 10;  // before the trainer tells of gradients
constexpr double segment_bytes = 1448;       // of TCP in an Ethernet frame
constexpr double congested_loss_rate = 0.02; // assumed: of a link that congestion has all but closed

bool has_any(const std::vector<cluster::telemetry_source>& sources, cluster::telemetry_source one,
             cluster::telemetry_source other) {
  return std::ranges::any_of(sources, [&](auto each) { return each == one || each == other; });
}

} // namespace

double noise_scale_meter::measure(double phi, double deviation, std::uint32_t steps) {
  const double correlation = std::pow(retention, steps);
  error_ = correlation * error_ + std::sqrt(1 - correlation * correlation) * numbers_.normal();
  return phi * std::exp(deviation * error_);
}

messages::training_statistics report_writer::training(const worker& of, random_stream& numbers) const {
  const auto batch = static_cast<double>(summary_.global_batch);
  messages::training_statistics result{.steps = summary_.steps, .samples = of.sums.samples};
  const double sampling = std::sqrt(summary_.accuracy * (1 - summary_.accuracy) / static_cast<double>(result.samples));
  result.accuracy = std::clamp(summary_.accuracy + sampling * numbers.normal(), 0.0, 1.0);
  result.loss = what_.workload.loss(result.accuracy);
  result.iteration_seconds = summary_.timed_seconds / summary_.timed_steps;
  result.compute_seconds = of.sums.computing / summary_.timed_steps;
  result.exchange_seconds = std::max(0.0, result.iteration_seconds - result.compute_seconds);
  // |g|^2 = |G|^2 + tr/B. Assumed: tr(Sigma) is constant and |G| is 1 at the start, so |G|^2 = phi_start/phi.
  result.gradient_norm = std::sqrt(what_.workload.phi_start * (1 / summary_.phi + 1 / batch));
  // One gradient alone shows nothing of its noise.
  result.gradient_valid = summary_.workers > 1 && summary_.first_step + summary_.steps >= warm_up_steps;
  if (result.gradient_valid) {
    result.noise_scale = summary_.measured_phi;
    result.sigma2_norm = summary_.measured_phi / of.batch;
    result.sigma_norm = std::sqrt(result.sigma2_norm);
  }
  result.gain = learning_.gain(summary_.phi, batch);
  result.learning_rate = what_.file.training.learning_rate * learning_.rate_factor(summary_.phi, batch);
  return result;
}

messages::network_statistics report_writer::network(const worker& of) const {
  if (!has_any(what_.file.telemetry_sources, cluster::telemetry_source::tcp_info, cluster::telemetry_source::ebpf))
    return {};
  const auto& options = what_.file.simulation;
  const double congestion = of.sums.congestion / summary_.steps;
  const double loss_rate = options.loss_rate + congested_loss_rate * (1 - 1 / congestion);
  const double segments = summary_.sent_bytes * summary_.steps / segment_bytes;
  return {.valid = true,
          .throughput_bytes_per_second = 2 * summary_.sent_bytes * summary_.steps / summary_.seconds,
          .rtt_seconds = 2 * options.latency_us * 1e-6 * congestion * what_.surroundings.rtt_factor,
          .retransmissions = static_cast<std::uint64_t>(std::llround(segments * loss_rate))};
}

messages::system_statistics report_writer::system(const worker& of) const {
  if (!has_any(what_.file.telemetry_sources, cluster::telemetry_source::procfs, cluster::telemetry_source::ebpf))
    return {};
  const auto highest = of.host.batch_highest == 0 ? what_.file.batch.highest : of.host.batch_highest;
  const double filled = std::min(1.0, static_cast<double>(of.batch) / highest);
  return {.valid = true,
          .cpu_time_ratio = of.sums.work / summary_.seconds,
          .run_queue_wait_ratio = std::max(0.0, of.sums.queued / summary_.seconds),
          .memory_ratio = what_.surroundings.idle_memory_ratio + what_.surroundings.batch_memory_ratio * filled};
}

messages::window_report report_writer::write(const worker& of, random_stream& numbers) const {
  const auto epoch_samples = static_cast<std::uint64_t>(what_.workload.epoch_samples);
  return {.host = of.host.name,
          .rank = of.rank,
          .generation = summary_.generation,
          .window = summary_.window,
          .first_step = summary_.first_step,
          .batch = of.batch,
          .global_batch = summary_.global_batch,
          .epoch = summary_.samples / epoch_samples,
          .epoch_samples = summary_.samples % epoch_samples,
          .elapsed_seconds = summary_.elapsed_seconds,
          .training = training(of, numbers),
          .network = network(of),
          .system = system(of)};
}

} // namespace dynamix::simulator
