#include "benchmarks/peer_grpc/conversion.hpp"

namespace dynamix::benchmarks {

void fill(const messages::window_report& from, star::Report& to) {
  to.set_host(from.host);
  to.set_rank(from.rank);
  to.set_generation(from.generation);
  to.set_window(from.window);
  to.set_first_step(from.first_step);
  to.set_final(from.final);
  to.set_batch(from.batch);
  to.mutable_decision()->set_term(from.decision.term);
  to.mutable_decision()->set_window(from.decision.window);
  to.set_global_batch(from.global_batch);
  to.set_epoch(from.epoch);
  to.set_epoch_samples(from.epoch_samples);
  to.set_elapsed_seconds(from.elapsed_seconds);
  auto& training = *to.mutable_training();
  training.set_steps(from.training.steps);
  training.set_samples(from.training.samples);
  training.set_accuracy(from.training.accuracy);
  training.set_loss(from.training.loss);
  training.set_iteration_seconds(from.training.iteration_seconds);
  training.set_compute_seconds(from.training.compute_seconds);
  training.set_exchange_seconds(from.training.exchange_seconds);
  training.set_data_seconds(from.training.data_seconds);
  training.set_gradient_valid(from.training.gradient_valid);
  training.set_sigma_norm(from.training.sigma_norm);
  training.set_sigma2_norm(from.training.sigma2_norm);
  training.set_gradient_norm(from.training.gradient_norm);
  training.set_noise_scale(from.training.noise_scale);
  training.set_learning_rate(from.training.learning_rate);
  training.set_gain(from.training.gain);
  auto& network = *to.mutable_network();
  network.set_valid(from.network.valid);
  network.set_throughput_bytes_per_second(from.network.throughput_bytes_per_second);
  network.set_rtt_seconds(from.network.rtt_seconds);
  network.set_retransmissions(from.network.retransmissions);
  auto& system = *to.mutable_system();
  system.set_valid(from.system.valid);
  system.set_cpu_time_ratio(from.system.cpu_time_ratio);
  system.set_run_queue_wait_ratio(from.system.run_queue_wait_ratio);
  system.set_memory_ratio(from.system.memory_ratio);
  to.set_telemetry_seconds(from.telemetry_seconds);
  to.set_control_seconds(from.control_seconds);
}

messages::window_report to_report(const star::Report& from) {
  messages::window_report report;
  report.host = from.host();
  report.rank = from.rank();
  report.generation = from.generation();
  report.window = from.window();
  report.first_step = from.first_step();
  report.final = from.final();
  report.batch = from.batch();
  report.decision = {from.decision().term(), from.decision().window()};
  report.global_batch = from.global_batch();
  report.epoch = from.epoch();
  report.epoch_samples = from.epoch_samples();
  report.elapsed_seconds = from.elapsed_seconds();
  const auto& training = from.training();
  report.training.steps = training.steps();
  report.training.samples = training.samples();
  report.training.accuracy = training.accuracy();
  report.training.loss = training.loss();
  report.training.iteration_seconds = training.iteration_seconds();
  report.training.compute_seconds = training.compute_seconds();
  report.training.exchange_seconds = training.exchange_seconds();
  report.training.data_seconds = training.data_seconds();
  report.training.gradient_valid = training.gradient_valid();
  report.training.sigma_norm = training.sigma_norm();
  report.training.sigma2_norm = training.sigma2_norm();
  report.training.gradient_norm = training.gradient_norm();
  report.training.noise_scale = training.noise_scale();
  report.training.learning_rate = training.learning_rate();
  report.training.gain = training.gain();
  report.network.valid = from.network().valid();
  report.network.throughput_bytes_per_second = from.network().throughput_bytes_per_second();
  report.network.rtt_seconds = from.network().rtt_seconds();
  report.network.retransmissions = from.network().retransmissions();
  report.system.valid = from.system().valid();
  report.system.cpu_time_ratio = from.system().cpu_time_ratio();
  report.system.run_queue_wait_ratio = from.system().run_queue_wait_ratio();
  report.system.memory_ratio = from.system().memory_ratio();
  report.telemetry_seconds = from.telemetry_seconds();
  report.control_seconds = from.control_seconds();
  return report;
}

void fill(const messages::decision& from, star::Decision& to) {
  to.mutable_key()->set_term(from.key.term);
  to.mutable_key()->set_window(from.key.window);
  to.set_generation(from.generation);
  to.set_rank(from.rank);
  to.set_batch(from.batch);
  to.set_first_step(from.first_step);
}

messages::decision to_decision(const star::Decision& from) {
  return {.key = {from.key().term(), from.key().window()},
          .generation = from.generation(),
          .rank = from.rank(),
          .batch = from.batch(),
          .first_step = from.first_step()};
}

} // namespace dynamix::benchmarks
