#include "dashboard/metrics.hpp"

#include <cmath>
#include <ctime>
#include <functional>
#include <iomanip>
#include <prometheus/text_serializer.h>
#include <sstream>

namespace dynamix::dashboard {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using labels = std::vector<ClientMetric::Label>;

/// Collects families; a value that is not known is left out.
class collection {
public:
  void begin(const char* name, const char* help, MetricType type) { families_.push_back({name, help, type, {}}); }
  void add(double value, labels with = {}) {
    if (std::isnan(value))
      return;
    ClientMetric metric;
    metric.label = std::move(with);
    (families_.back().type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    families_.back().metric.push_back(std::move(metric));
  }
  void gauge(const char* name, const char* help, double value) {
    begin(name, help, MetricType::Gauge);
    add(value);
  }
  void counter(const char* name, const char* help, double value) {
    begin(name, help, MetricType::Counter);
    add(value);
  }
  void histogram(const char* name, const char* help, const duration_histogram& from) {
    begin(name, help, MetricType::Histogram);
    ClientMetric metric;
    for (std::size_t i = 0; i < from.counts.size(); ++i) {
      metric.histogram.sample_count += from.counts[i];
      if (i < duration_histogram::bounds.size())
        metric.histogram.bucket.push_back({metric.histogram.sample_count, duration_histogram::bounds[i]});
    }
    metric.histogram.sample_sum = from.sum;
    families_.back().metric.push_back(std::move(metric));
  }
  std::vector<MetricFamily> take() { return std::move(families_); }

private:
  std::vector<MetricFamily> families_;
};

/// Seconds since 1970 of the newest row: the arbitrator's start and its clock since. NaN where the start is not known.
double timestamp_of(const live_run& run) {
  std::tm utc{};
  std::istringstream text(run.start().started_at);
  text >> std::get_time(&utc, "%Y-%m-%dT%H:%M:%SZ");
  return text.fail() ? std::nan("") : static_cast<double>(::timegm(&utc)) + run.at_seconds();
}

void add_run(collection& all, const live_run& run) {
  all.begin("dynamix_run_info", "The run: always 1, its facts are labels.", MetricType::Gauge);
  all.add(1, {{"cluster", run.file().name}, {"policy", run.start().policy}, {"mode", run.start().mode}});
  all.begin("dynamix_workers", "Workers of the cluster file by state.", MetricType::Gauge);
  std::array<double, worker_state_names.size()> states{};
  for (const auto& worker : run.workers())
    ++states[static_cast<std::size_t>(worker.state)];
  for (std::size_t i = 0; i < states.size(); ++i)
    all.add(states[i], {{"state", std::string(worker_state_names[i])}});
  all.gauge("dynamix_term", "Term of the arbitrator.", static_cast<double>(run.term()));
  all.gauge("dynamix_generation", "Newest generation of workers.", static_cast<double>(run.generation()));
  all.gauge("dynamix_policy_version", "Version of the policy that decides.", static_cast<double>(run.policy_version()));
  all.gauge("dynamix_newest_row_timestamp_seconds", "When the newest row of the ledger was written, Unix time.",
            timestamp_of(run));
}

void add_progress(collection& all, const live_run& run) {
  const auto newest = [&](signal which) { return static_cast<double>(run.newest(which)); };
  const auto evaluated = [&](auto member) {
    return run.evaluations().empty() ? std::nan("") : run.evaluations().back().*member;
  };
  using messages::evaluation_report;
  all.gauge("dynamix_training_elapsed_seconds", "Time in training.", newest(signal::elapsed_seconds));
  all.gauge("dynamix_trained_samples", "Samples that all workers have trained on; steps back with a resumed run.",
            newest(signal::samples));
  all.gauge("dynamix_planned_samples", "Samples at which the run ends, unless a target ends it before.",
            run.start().epochs * static_cast<double>(run.start().dataset_samples));
  all.gauge("dynamix_batch_accuracy_ratio", "Mean batch accuracy of the newest window.", newest(signal::accuracy));
  all.gauge("dynamix_loss", "Mean batch loss of the newest window.", newest(signal::loss));
  all.gauge("dynamix_test_accuracy_ratio", "Accuracy on the test set at the newest evaluation.",
            evaluated(&evaluation_report::test_accuracy));
  all.gauge("dynamix_test_loss", "Loss on the test set at the newest evaluation.",
            evaluated(&evaluation_report::test_loss));
  all.gauge("dynamix_target_accuracy_ratio", "Test accuracy that ends the run; 0: none.", run.start().target_accuracy);
  all.gauge("dynamix_throughput_samples_per_second", "Samples that all workers train on in a second.",
            newest(signal::samples_per_second));
  all.gauge("dynamix_step_seconds", "Mean duration of a training step in the newest window.",
            newest(signal::step_seconds));
  all.gauge("dynamix_global_batch_size", "Samples a step of all workers.", newest(signal::global_batch));
  all.gauge("dynamix_gradient_noise_scale_samples", "Gradient noise scale.", newest(signal::noise_scale));
  all.gauge("dynamix_learning_rate", "Learning rate in force.", newest(signal::learning_rate));
}

void add_deciding(collection& all, const live_run& run) {
  const auto& totals = run.totals();
  const auto count = [](std::uint64_t number) { return static_cast<double>(number); };
  const bool learned = run.policy().version > 0;
  all.gauge("dynamix_reward", "Mean reward of the workers in the newest window.",
            static_cast<double>(run.newest(signal::reward)));
  all.gauge("dynamix_policy_entropy_nats", "Mean entropy of the action probabilities in the newest window.",
            static_cast<double>(run.newest(signal::entropy)));
  all.gauge("dynamix_policy_kl_nats", "Approximate KL divergence of the newest policy update.",
            learned ? run.policy().approximate_kl : std::nan(""));
  all.counter("dynamix_windows_total", "Windows in the ledger.", count(totals.windows));
  all.counter("dynamix_decisions_total", "Decisions made, one a worker and window.", count(totals.decisions));
  all.counter("dynamix_guarded_windows_total", "Windows in which the guard stepped in.",
              count(totals.intervened_windows));
  all.counter("dynamix_samples_total", "Samples trained on, those of dropped steps included.", count(totals.samples));
  all.counter("dynamix_generations_total", "Generations formed.", count(totals.generations));
  all.counter("dynamix_lost_steps_total", "Steps that were done again after a loss.", count(totals.steps_lost));
  all.begin("dynamix_events_total", "Events in the ledger by name, such as lost, rejoined, restarted, leader.",
            MetricType::Counter);
  for (const char* name : {"lost", "rejoined", "restarted", "warning"}) // so that a rate exists before the first
    if (!totals.events.contains(name))
      all.add(0, {{"event", name}});
  for (const auto& [name, number] : totals.events)
    all.add(count(number), {{"event", name}});
  all.histogram("dynamix_window_gather_seconds", "From a window's first report to its last, or to the deadline.",
                totals.gather);
  all.histogram("dynamix_window_decide_seconds", "To judge a window and decide.", totals.decide);
}

struct worker_family {
  const char* name;
  const char* help;
  MetricType type;
  std::function<double(const live_worker&)> value;
};

const std::vector<worker_family>& worker_families() {
  using worker = const live_worker&;
  const auto unless = [](bool unknown, double value) { return unknown ? std::nan("") : value; };
  const auto reported = [unless](auto select) {
    return [=](worker one) { return unless(!one.reported, static_cast<double>(select(one))); };
  };
  const auto network = [unless](auto select) {
    return [=](worker one) { return unless(!one.report.network.valid, static_cast<double>(select(one))); };
  };
  const auto machine = [unless](auto select) {
    return [=](worker one) { return unless(!one.report.system.valid, static_cast<double>(select(one))); };
  };
  const auto gauge = MetricType::Gauge;
  const auto counter = MetricType::Counter;
  static const std::vector<worker_family> families = {
      {"dynamix_worker_training", "1 while the worker trains in the newest generation, else 0.", gauge,
       [](worker one) { return one.state == worker_state::training ? 1.0 : 0.0; }},
      {"dynamix_worker_batch_size", "Batch size in force.", gauge,
       reported([](worker one) { return one.report.batch; })},
      {"dynamix_worker_batch_size_lowest", "Lowest batch size that may be decided.", gauge,
       [](worker one) { return static_cast<double>(one.batch_lowest); }},
      {"dynamix_worker_batch_size_highest", "Highest batch size that may be decided.", gauge,
       [](worker one) { return static_cast<double>(one.batch_highest); }},
      {"dynamix_worker_throughput_samples_per_second", "Samples that the worker trains on in a second.", gauge,
       reported([](worker one) { return one.samples_per_second; })},
      {"dynamix_worker_reward", "Reward of the newest window.", gauge, reported([](worker one) { return one.reward; })},
      {"dynamix_worker_accuracy_ratio", "Mean batch accuracy of the newest window.", gauge,
       reported([](worker one) { return one.report.training.accuracy; })},
      {"dynamix_worker_network_bytes_per_second", "Bytes sent and received in a second.", gauge,
       network([](worker one) { return one.report.network.throughput_bytes_per_second; })},
      {"dynamix_worker_network_rtt_seconds", "Mean smoothed round-trip time of its connections.", gauge,
       network([](worker one) { return one.report.network.rtt_seconds; })},
      {"dynamix_worker_cpu_ratio", "CPU time over wall time of its process.", gauge,
       machine([](worker one) { return one.report.system.cpu_time_ratio; })},
      {"dynamix_worker_run_queue_ratio", "Time that its threads waited for a CPU, over wall time.", gauge,
       machine([](worker one) { return one.report.system.run_queue_wait_ratio; })},
      {"dynamix_worker_memory_ratio", "Resident memory over the machine's.", gauge,
       machine([](worker one) { return one.report.system.memory_ratio; })},
      {"dynamix_worker_samples_total", "Samples trained on.", counter,
       [](worker one) { return static_cast<double>(one.samples); }},
      {"dynamix_worker_retransmissions_total", "TCP segments sent again.", counter,
       [](worker one) { return static_cast<double>(one.retransmissions); }},
      {"dynamix_worker_stale_reports_total", "Windows in which an older report stood in for a late one.", counter,
       [](worker one) { return static_cast<double>(one.stale_reports); }},
      {"dynamix_worker_training_seconds_total", "Time in steps.", counter,
       [](worker one) { return one.training_seconds; }},
      {"dynamix_worker_telemetry_seconds_total", "CPU time that telemetry cost.", counter,
       [](worker one) { return one.telemetry_seconds; }},
      {"dynamix_worker_control_seconds_total", "Time that the training thread spent on windows and decisions.", counter,
       [](worker one) { return one.control_seconds; }},
  };
  return families;
}

void add_workers(collection& all, const live_run& run) {
  for (const auto& family : worker_families()) {
    all.begin(family.name, family.help, family.type);
    for (const auto& worker : run.workers())
      all.add(family.value(worker), {{"worker", worker.name}});
  }
  all.begin("dynamix_worker_step_part_seconds", "Where a step's time went in the newest window, by part.",
            MetricType::Gauge);
  for (const auto& worker : run.workers())
    for (std::size_t i = 0; worker.reported && i < part_names.size(); ++i)
      all.add(worker.parts[i], {{"worker", worker.name}, {"part", std::string(part_names[i])}});
}

void add_shards(collection& all, const live_run& run) {
  all.begin("dynamix_shard_up", "1 while an arbitrator of the tree is up, else 0.", MetricType::Gauge);
  for (const auto& [name, shard] : run.shards())
    all.add(shard.state == "up" ? 1 : 0,
            {{"shard", name}, {"parent", shard.parent}, {"level", std::to_string(shard.level)}});
  all.begin("dynamix_shard_workers", "Workers below an arbitrator of the tree.", MetricType::Gauge);
  for (const auto& [name, shard] : run.shards())
    all.add(shard.workers, {{"shard", name}});
}

} // namespace

std::vector<MetricFamily> metrics_of(const live_run& run, std::uint64_t unread_bytes) {
  collection all;
  add_run(all, run);
  add_progress(all, run);
  add_deciding(all, run);
  add_workers(all, run);
  add_shards(all, run);
  all.gauge("dynamix_ledger_unread_bytes", "Of the ledger that the metrics do not cover yet.",
            static_cast<double>(unread_bytes));
  return all.take();
}

std::string metrics_text(const live_run& run, std::uint64_t unread_bytes) {
  return prometheus::TextSerializer().Serialize(metrics_of(run, unread_bytes));
}

} // namespace dynamix::dashboard
