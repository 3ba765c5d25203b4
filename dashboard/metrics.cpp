#include "dashboard/metrics.hpp"

#include "dashboard/metrics_collection.hpp"
#include "messages/loss.hpp"

#include <cmath>
#include <ctime>
#include <iomanip>
#include <prometheus/text_serializer.h>
#include <sstream>

namespace dynamix::dashboard {
namespace {

using namespace ledger;
using prometheus::MetricFamily;
using prometheus::MetricType;

/// Seconds since 1970 of the newest row: the arbitrator's start and its clock since. NaN where the start is not known.
double timestamp_of(const ledger::run& run) {
  std::tm utc{};
  std::istringstream text(run.start().started_at);
  text >> std::get_time(&utc, "%Y-%m-%dT%H:%M:%SZ");
  return text.fail() ? std::nan("") : static_cast<double>(::timegm(&utc)) + run.at_seconds();
}

void add_run(collection& all, const ledger::run& run) {
  all.begin("dynamix_run_info", "Always 1; labels describe the run.", MetricType::Gauge);
  all.add(1, {{"cluster", run.file().name}, {"policy", run.start().policy}, {"mode", run.start().mode}});
  all.begin("dynamix_workers", "Workers of the cluster file by state.", MetricType::Gauge);
  std::array<double, worker_state_names.size()> states{};
  for (const auto& worker : run.workers())
    ++states[static_cast<std::size_t>(worker.state)];
  for (std::size_t i = 0; i < states.size(); ++i)
    all.add(states[i], {{"state", std::string(worker_state_names[i])}});
  all.gauge("dynamix_term", "Term of the arbitrator.", static_cast<double>(run.term()));
  all.gauge("dynamix_generation", "Newest generation of workers.", static_cast<double>(run.generation()));
  all.gauge("dynamix_policy_version", "Version of the policy in force.", static_cast<double>(run.policy_version()));
  all.gauge("dynamix_newest_row_timestamp_seconds", "When the newest row of the ledger was written, Unix time.",
            timestamp_of(run));
}

void add_progress(collection& all, const ledger::run& run) {
  const auto newest = [&](signal which) { return static_cast<double>(run.course().newest(which)); };
  const auto evaluated = [&](auto member) {
    return run.evaluations().empty() ? std::nan("") : run.evaluations().back().*member;
  };
  using messages::evaluation_report;
  all.gauge("dynamix_training_elapsed_seconds", "Time in training.", newest(signal::elapsed_seconds));
  all.gauge("dynamix_trained_samples", "Samples trained on by all workers; goes back when a run is resumed.",
            newest(signal::samples));
  all.gauge("dynamix_planned_samples", "Samples at which the run ends, unless a target ends it before.",
            run.start().epochs * static_cast<double>(run.start().dataset_samples));
  all.gauge("dynamix_batch_accuracy_ratio", "Mean batch accuracy of the newest window.", newest(signal::accuracy));
  all.gauge("dynamix_loss", "Mean batch loss of the newest window.", newest(signal::loss));
  all.gauge("dynamix_test_accuracy_ratio", "Accuracy on the test set at the newest evaluation.",
            evaluated(&evaluation_report::test_accuracy));
  all.gauge("dynamix_test_loss", "Loss on the test set at the newest evaluation.",
            messages::received_loss(evaluated(&evaluation_report::test_loss)));
  all.gauge("dynamix_target_accuracy_ratio", "Test accuracy that ends the run; 0: none.", run.start().target_accuracy);
  all.gauge("dynamix_throughput_samples_per_second", "Samples trained on per second, all workers.",
            newest(signal::samples_per_second));
  all.gauge("dynamix_step_seconds", "Mean duration of a training step in the newest window.",
            newest(signal::step_seconds));
  all.gauge("dynamix_global_batch_size", "Samples per step, all workers.", newest(signal::global_batch));
  all.gauge("dynamix_gradient_noise_scale_samples", "Gradient noise scale.", newest(signal::noise_scale));
  all.gauge("dynamix_learning_rate", "Learning rate in force.", newest(signal::learning_rate));
}

void add_deciding(collection& all, const ledger::run& run) {
  const auto& totals = run.totals();
  const auto count = [](std::uint64_t number) { return static_cast<double>(number); };
  const bool learned = run.policy().version > 0;
  all.gauge("dynamix_reward", "Mean reward of the workers in the newest window.",
            static_cast<double>(run.course().newest(signal::reward)));
  all.gauge("dynamix_policy_entropy_nats", "Mean entropy of the action probabilities in the newest window.",
            static_cast<double>(run.course().newest(signal::entropy)));
  all.gauge("dynamix_policy_kl_nats", "Approximate KL divergence of the newest policy update.",
            learned ? run.policy().approximate_kl : std::nan(""));
  all.counter("dynamix_windows_total", "Windows in the ledger.", count(totals.windows));
  all.counter("dynamix_decisions_total", "Decisions made, one per worker per window.", count(totals.decisions));
  all.counter("dynamix_guarded_windows_total", "Windows in which the guard intervened.",
              count(totals.intervened_windows));
  all.counter("dynamix_samples_total", "Samples trained on, those of dropped steps included.", count(totals.samples));
  all.counter("dynamix_generations_total", "Generations formed.", count(totals.generations));
  all.counter("dynamix_lost_steps_total", "Steps repeated after a loss.", count(totals.steps_lost));
  all.begin("dynamix_events_total", "Events in the ledger by name, such as lost, rejoined, restarted, leader.",
            MetricType::Counter);
  for (const char* name : {"lost", "rejoined", "restarted", "warning"}) // so that a rate exists before the first
    if (!totals.events.contains(name))
      all.add(0, {{"event", name}});
  for (const auto& [name, number] : totals.events)
    all.add(count(number), {{"event", std::string(name)}});
  all.histogram("dynamix_window_gather_seconds", "Time from a window's first report to its last, or to the deadline.",
                totals.gather);
  all.histogram("dynamix_window_decide_seconds", "Time to judge a window and decide.", totals.decide);
}

void add_shards(collection& all, const ledger::run& run) {
  all.begin("dynamix_shard_up", "1 while an arbitrator of the tree is up, else 0.", MetricType::Gauge);
  for (const auto& [name, shard] : run.shards())
    all.add(shard.state == ledger::shard_state::up || shard.state == ledger::shard_state::standby ? 1 : 0,
            {{"shard", name}, {"parent", shard.parent}, {"level", std::to_string(shard.level)}});
  all.begin("dynamix_shard_workers", "Workers below an arbitrator of the tree.", MetricType::Gauge);
  for (const auto& [name, shard] : run.shards())
    all.add(shard.workers, {{"shard", name}});
}

} // namespace

std::vector<MetricFamily> metrics_of(const ledger::run& run, std::uint64_t unread_bytes) {
  collection all;
  add_run(all, run);
  add_progress(all, run);
  add_deciding(all, run);
  add_worker_metrics(all, run);
  add_shards(all, run);
  all.gauge("dynamix_ledger_unread_bytes", "Bytes of the ledger that the metrics do not cover yet.",
            static_cast<double>(unread_bytes));
  return all.take();
}

std::string metrics_text(const ledger::run& run, std::uint64_t unread_bytes) {
  return prometheus::TextSerializer().Serialize(metrics_of(run, unread_bytes));
}

} // namespace dynamix::dashboard
