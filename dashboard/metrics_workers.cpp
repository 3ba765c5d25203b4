#include "dashboard/metrics_collection.hpp"

#include <string>

namespace dynamix::dashboard {
namespace {

using namespace ledger;
using prometheus::MetricType;
using worker = const live_worker&;

struct worker_family {
  const char* name;
  const char* help;
  MetricType type;
  bool (*known)(worker);
  double (*value)(worker);
};

bool always(worker) {
  return true;
}
bool reported(worker one) {
  return one.reported;
}
bool network(worker one) {
  return one.report.network.valid;
}
bool machine(worker one) {
  return one.report.system.valid;
}
bool accelerator(worker one) {
  return one.report.gpu.valid;
}

constexpr auto gauge = MetricType::Gauge;
constexpr auto counter = MetricType::Counter;

const worker_family training_families[] = {
    {"dynamix_worker_training", "1 while the worker trains in the newest generation, else 0.", gauge, always,
     [](worker one) { return one.state == worker_state::training ? 1.0 : 0.0; }},
    {"dynamix_worker_batch_size", "Batch size in force.", gauge, reported,
     [](worker one) -> double { return one.report.batch; }},
    {"dynamix_worker_batch_size_lowest", "Lowest batch size that may be decided.", gauge, always,
     [](worker one) -> double { return one.batch_lowest; }},
    {"dynamix_worker_batch_size_highest", "Highest batch size that may be decided.", gauge, always,
     [](worker one) -> double { return one.limit(); }},
    {"dynamix_worker_throughput_samples_per_second", "Samples trained on per second.", gauge, reported,
     [](worker one) { return one.samples_per_second; }},
    {"dynamix_worker_reward", "Reward of the newest window.", gauge, reported, [](worker one) { return one.reward; }},
    {"dynamix_worker_accuracy_ratio", "Mean batch accuracy of the newest window.", gauge, reported,
     [](worker one) { return one.report.training.accuracy; }},
    {"dynamix_worker_samples_total", "Samples trained on.", counter, always,
     [](worker one) { return static_cast<double>(one.samples); }},
    {"dynamix_worker_stale_reports_total", "Windows in which a stale report replaced a late one.", counter, always,
     [](worker one) { return static_cast<double>(one.stale_reports); }},
    {"dynamix_worker_training_seconds_total", "Time in steps.", counter, always,
     [](worker one) { return one.training_seconds; }},
    {"dynamix_worker_telemetry_seconds_total", "CPU time spent on telemetry.", counter, always,
     [](worker one) { return one.telemetry_seconds; }},
    {"dynamix_worker_control_seconds_total", "Time that the training thread spent on windows and decisions.", counter,
     always, [](worker one) { return one.control_seconds; }},
};

const worker_family host_families[] = {
    {"dynamix_worker_network_bytes_per_second", "Bytes sent and received per second.", gauge, network,
     [](worker one) { return one.report.network.throughput_bytes_per_second; }},
    {"dynamix_worker_network_gradient_bytes_per_second", "Bytes of gradients sent and received per second.", gauge,
     network, [](worker one) { return one.report.network.gradient_bytes_per_second; }},
    {"dynamix_worker_network_rtt_seconds", "Mean smoothed round-trip time of its connections.", gauge, network,
     [](worker one) { return one.report.network.rtt_seconds; }},
    {"dynamix_worker_network_rtt_p99_seconds",
     "99th percentile of the RTT of connections that carry gradients; 0: no sample.", gauge, network,
     [](worker one) { return one.report.network.rtt_p99_seconds; }},
    {"dynamix_worker_network_blocked_ratio", "Time with gradients sent but not delivered, over wall time.", gauge,
     network, [](worker one) { return one.report.network.sender_blocked_ratio; }},
    {"dynamix_worker_retransmissions_total", "Retransmitted TCP segments.", counter, always,
     [](worker one) { return static_cast<double>(one.retransmissions); }},
    {"dynamix_worker_cpu_ratio", "CPU time of its process over wall time.", gauge, machine,
     [](worker one) { return one.report.system.cpu_time_ratio; }},
    {"dynamix_worker_run_queue_ratio", "Time that its threads waited for a CPU, over wall time.", gauge, machine,
     [](worker one) { return one.report.system.run_queue_wait_ratio; }},
    {"dynamix_worker_cpu_throttled_ratio", "Time throttled by its cgroup's CPU quota, over wall time.", gauge, machine,
     [](worker one) { return one.report.system.throttled_ratio; }},
    {"dynamix_worker_memory_ratio", "Resident memory over the machine's memory.", gauge, machine,
     [](worker one) { return one.report.system.memory_ratio; }},
    {"dynamix_worker_gpu_ratio", "GPU utilisation, mean over its GPUs.", gauge, accelerator,
     [](worker one) { return one.report.gpu.utilisation_ratio; }},
    {"dynamix_worker_gpu_memory_ratio", "Share of memory in use on its fullest GPU.", gauge, accelerator,
     [](worker one) { return one.report.gpu.memory_ratio; }},
    {"dynamix_worker_gpu_throttled", "1 while heat or power limits the clock of one of its GPUs, else 0.", gauge,
     accelerator, [](worker one) { return one.report.gpu.throttled ? 1.0 : 0.0; }},
};

void add_family(collection& all, const ledger::run& run, const worker_family& family) {
  all.begin(family.name, family.help, family.type);
  for (const auto& one : run.workers())
    if (family.known(one))
      all.add(family.value(one), {{"worker", one.name}});
}

} // namespace

void add_worker_metrics(collection& all, const ledger::run& run) {
  for (const auto& family : training_families)
    add_family(all, run, family);
  for (const auto& family : host_families)
    add_family(all, run, family);
  all.begin("dynamix_worker_step_part_seconds", "Time of a step in the newest window, by part.", gauge);
  for (const auto& one : run.workers())
    for (std::size_t i = 0; one.reported && i < part_names.size(); ++i)
      all.add(one.parts[i], {{"worker", one.name}, {"part", std::string(part_names[i])}});
}

} // namespace dynamix::dashboard
