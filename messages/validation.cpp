#include "messages/validation.hpp"

#include "messages/checker.hpp"

#include <algorithm>
#include <cmath>

namespace dynamix::messages {
namespace {

constexpr std::uint32_t max_cores = 1U << 16;
constexpr std::uint32_t max_heartbeat_interval_ms = 3'600'000;
constexpr std::uint64_t max_global_batch = std::uint64_t{max_workers} * max_batch;
// The logarithm of a probability that rounding has pushed above 1.
constexpr double log_probability_max = 1e-6;

std::string element(std::string_view name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

std::string fault_in(const training_statistics& value) {
  checker check;
  check.number("accuracy", value.accuracy, 0, 1);
  check.number("loss", value.loss, 0);
  check.number("iteration_seconds", value.iteration_seconds, 0);
  check.number("compute_seconds", value.compute_seconds, 0);
  check.number("exchange_seconds", value.exchange_seconds, 0);
  check.number("data_seconds", value.data_seconds, 0);
  check.number("sigma_norm", value.sigma_norm, 0);
  check.number("sigma2_norm", value.sigma2_norm, 0);
  check.number("gradient_norm", value.gradient_norm, 0);
  check.number("noise_scale", value.noise_scale, 0);
  check.number("learning_rate", value.learning_rate, 0);
  check.number("gain", value.gain, 0);
  return check.take();
}

void check_source(checker& check, signal_source source, bool valid) {
  check.require(source <= signal_source::ebpf, "source", "is unknown");
  check.require(!valid || source != signal_source::none, "source", "is none for a valid signal");
}

std::string fault_in(const network_statistics& value) {
  checker check;
  check.number("throughput_bytes_per_second", value.throughput_bytes_per_second, 0);
  check.number("rtt_seconds", value.rtt_seconds, 0);
  check_source(check, value.source, value.valid);
  check.number("rtt_p50_seconds", value.rtt_p50_seconds, 0);
  check.number("rtt_p99_seconds", value.rtt_p99_seconds, 0);
  check.number("gradient_bytes_per_second", value.gradient_bytes_per_second, 0);
  check.number("control_bytes_per_second", value.control_bytes_per_second, 0);
  check.number("sender_blocked_ratio", value.sender_blocked_ratio, 0);
  check.number("receiver_blocked_ratio", value.receiver_blocked_ratio, 0);
  check.number("congestion_window_segments", value.congestion_window_segments, 0);
  return check.take();
}

std::string fault_in(const system_statistics& value) {
  checker check;
  check.number("cpu_time_ratio", value.cpu_time_ratio, 0, max_cores);
  check.number("run_queue_wait_ratio", value.run_queue_wait_ratio, 0);
  check.number("memory_ratio", value.memory_ratio, 0, 1);
  check_source(check, value.source, value.valid);
  check.number("training_cpu_ratio", value.training_cpu_ratio, 0, 1);
  check.number("training_wait_ratio", value.training_wait_ratio, 0, 1);
  check.number("training_stalled_ratio", value.training_stalled_ratio, 0, 1);
  check.number("throttled_ratio", value.throttled_ratio, 0);
  check.number("cpu_pressure_ratio", value.cpu_pressure_ratio, 0, 1);
  check.number("memory_pressure_ratio", value.memory_pressure_ratio, 0, 1);
  check.number("io_pressure_ratio", value.io_pressure_ratio, 0, 1);
  return check.take();
}

std::string fault_in(const gpu_statistics& value) {
  checker check;
  check.number("utilisation_ratio", value.utilisation_ratio, 0, 1);
  check.number("memory_ratio", value.memory_ratio, 0, 1);
  return check.take();
}

std::string fault_in(const decision_counts& value) {
  checker check;
  check.count("late", value.late, 0, value.applied);
  check.count("applied", value.applied, 0, value.received);
  check.count("superseded", value.superseded, 0, value.received - value.applied);
  check.require(value.unapplied == value.received - value.applied - value.superseded, "unapplied",
                "is not received - applied - superseded");
  return check.take();
}

std::string fault_in(const transition& value) {
  checker check;
  check.count("state size", value.state.size(), 1, max_state_size);
  check.require(std::all_of(value.state.begin(), value.state.end(), [](float one) { return std::isfinite(one); }),
                "state", "holds numbers that are not finite");
  check.count("action", value.action, 0, max_actions - 1);
  check.number("log_probability", value.log_probability, -unbounded, log_probability_max);
  check.number("value", value.value, -unbounded);
  check.number("reward", value.reward, -unbounded);
  return check.take();
}

} // namespace

std::string validate(const hello& value) {
  checker check;
  check.count("protocol", value.protocol, 1, any);
  check.name("cluster", value.cluster);
  check.name("host", value.host);
  check.count("incarnation", value.incarnation, 1, any);
  check.count("heartbeat_interval_ms", value.heartbeat_interval_ms, 1, max_heartbeat_interval_ms);
  check.counter("generation", value.generation);
  check.key("last_decision", value.last_decision);
  check.require(!value.training || value.generation > 0, "training", "is in no generation");
  check.ranks("members", value.members, value.training ? 1 : 0, value.training ? max_workers : 0);
  check.counter("steps", value.steps);
  check.counter("attempted_steps", value.attempted_steps, value.steps);
  check.counter("checkpoint_steps", value.checkpoint_steps);
  return check.take();
}

std::string validate(const welcome& value) {
  checker check;
  check.require(value.verdict >= welcome_verdict::accepted && value.verdict <= welcome_verdict::not_leader, "verdict",
                "is unknown");
  check.text("detail", value.detail, 0, max_text_length, lines::many);
  check.counter("term", value.term);
  check.counter("generation", value.generation);
  check.count("rank", value.rank, 0, max_workers - 1);
  check.text("leader", value.leader, 0, max_name_length, lines::one);
  return check.take();
}

std::string validate(const placement& value) {
  checker check;
  check.counter("generation", value.generation, 1);
  check.ranks("members", value.members, 1, max_workers);
  check.require(std::ranges::binary_search(value.members, value.source), "source", "is no member");
  check.name("store_prefix", value.store_prefix);
  return check.take();
}

std::string validate(const generation_notice& value) {
  checker check;
  check.counter("generation", value.generation, 1);
  check.require(value.change >= generation_change::ended && value.change <= generation_change::regroup, "change",
                "is unknown");
  check.text("reason", value.reason, 0, max_text_length, lines::many);
  return check.take();
}

std::string validate(const heartbeat& value) {
  checker check;
  check.count("rank", value.rank, 0, max_workers - 1);
  check.count("incarnation", value.incarnation, 1, any);
  check.counter("generation", value.generation);
  check.counter("steps", value.steps);
  return check.take();
}

std::string validate(const window_report& value) {
  checker check;
  check.name("host", value.host);
  check.count("rank", value.rank, 0, max_workers - 1);
  check.counter("generation", value.generation, 1);
  check.counter("window", value.window, 1);
  check.counter("first_step", value.first_step);
  check.count("batch", value.batch, 0, max_batch);
  check.key("decision", value.decision);
  check.count("global_batch", value.global_batch, 0, max_global_batch);
  check.number("elapsed_seconds", value.elapsed_seconds, 0);
  check.nested("training", fault_in(value.training));
  check.nested("network", fault_in(value.network));
  check.nested("system", fault_in(value.system));
  check.number("telemetry_seconds", value.telemetry_seconds, 0);
  check.number("control_seconds", value.control_seconds, 0);
  check.nested("gpu", fault_in(value.gpu));
  check.number("program_seconds", value.program_seconds, 0);
  check.text("telemetry_choice", value.telemetry_choice, 0, max_text_length, lines::many);
  return check.take();
}

std::string validate(const evaluation_report& value) {
  checker check;
  check.counter("step", value.step);
  check.number("elapsed_seconds", value.elapsed_seconds, 0);
  check.number("train_loss", value.train_loss, 0);
  check.number("test_loss", value.test_loss, 0);
  check.number("test_accuracy", value.test_accuracy, 0, 1);
  check.count("global_batch", value.global_batch, 0, max_global_batch);
  check.number("learning_rate", value.learning_rate, 0);
  return check.take();
}

std::string validate(const farewell& value) {
  checker check;
  check.name("host", value.host);
  check.count("rank", value.rank, 0, max_workers - 1);
  check.text("reason", value.reason, 0, max_text_length, lines::many);
  check.counter("steps", value.steps);
  check.number("wall_seconds", value.wall_seconds, 0);
  check.number("final_accuracy", value.final_accuracy, 0, 1);
  check.number("seconds_to_target", value.seconds_to_target, -unbounded);
  check.number("control_seconds", value.control_seconds, 0);
  check.number("telemetry_seconds", value.telemetry_seconds, 0);
  check.nested("decisions", fault_in(value.decisions));
  return check.take();
}

std::string validate(const shard_report& value) {
  checker check;
  check.counter("window", value.window, 1);
  check.counter("generation", value.generation, 1);
  check.count("expected", value.expected, 0, max_workers);
  check.count("reports size", value.reports.size(), 0, value.expected);
  check.number("gather_seconds", value.gather_seconds, 0);
  for (std::size_t i = 0; i < value.reports.size(); ++i) {
    const auto& report = value.reports[i];
    const auto name = element("reports", i);
    check.nested(name, validate(report));
    check.require(report.generation == value.generation, name, "is of another generation");
    check.require(report.window <= value.window, name, "is of a later window");
    check.require(i == 0 || report.rank > value.reports[i - 1].rank, name, "does not come in the order of ranks");
  }
  return check.take();
}

std::string validate(const decision& value) {
  checker check;
  check.counter("key.window", value.key.window, 1);
  check.key("key", value.key);
  check.counter("generation", value.generation, 1);
  check.count("rank", value.rank, 0, max_workers - 1);
  check.count("batch", value.batch, 1, max_batch);
  check.counter("first_step", value.first_step);
  return check.take();
}

std::string validate(const trajectory& value) {
  checker check;
  check.count("rank", value.rank, 0, max_workers - 1);
  check.count("transitions size", value.transitions.size(), 1, max_trajectory_length);
  for (std::size_t i = 0; i < value.transitions.size(); ++i) {
    const auto name = element("transitions", i);
    check.nested(name, fault_in(value.transitions[i]));
    check.require(value.transitions[i].state.size() == value.transitions[0].state.size(), name,
                  "has a state of another size than the first");
  }
  check.number("bootstrap_value", value.bootstrap_value, -unbounded);
  return check.take();
}

std::string validate(const policy_version& value) {
  checker check;
  check.count("parameters size", value.parameters.size(), 1, max_policy_bytes);
  check.number("policy_loss", value.policy_loss, -unbounded);
  check.number("value_loss", value.value_loss, 0);
  check.number("entropy", value.entropy, 0);
  check.number("approximate_kl", value.approximate_kl, -unbounded);
  check.number("clip_fraction", value.clip_fraction, 0, 1);
  return check.take();
}

std::string validate(const store_operation& value) {
  checker check;
  check.require(value.verb >= store_verb::set && value.verb <= store_verb::count, "verb", "is unknown");
  const bool several = value.verb == store_verb::check;
  const std::size_t least = value.verb == store_verb::count ? 0 : 1;
  check.count("keys size", value.keys.size(), least, several ? max_store_keys : least);
  for (std::size_t i = 0; i < value.keys.size(); ++i)
    check.text(element("keys", i), value.keys[i], 1, max_key_length, lines::one);
  check.count("value size", value.value.size(), 0, value.verb == store_verb::set ? max_store_value_bytes : 0);
  check.require(value.amount == 0 || value.verb == store_verb::add, "amount", "is only for add");
  return check.take();
}

std::string validate(const store_result& value) {
  checker check;
  check.require(value.status >= store_status::ok && value.status <= store_status::absent, "status", "is unknown");
  check.count("value size", value.value.size(), 0, value.status == store_status::ok ? max_store_value_bytes : 0);
  return check.take();
}

} // namespace dynamix::messages
