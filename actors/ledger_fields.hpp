#pragma once

/// What of each struct the ledger keeps, once for writing and reading: `for_each_field(value, visit)` calls
/// `visit(name, field)` for each, in order. A field that an older ledger lacks keeps its default.

#include "actors/ledger.hpp"

#include <concepts>
#include <type_traits>

// Each of a list's names in turn: the preprocessor scans a macro's result again as often as DYNAMIX_SCAN nests.
#define DYNAMIX_SCAN(...) DYNAMIX_SCAN_3(DYNAMIX_SCAN_3(DYNAMIX_SCAN_3(__VA_ARGS__)))
#define DYNAMIX_SCAN_3(...) DYNAMIX_SCAN_2(DYNAMIX_SCAN_2(DYNAMIX_SCAN_2(__VA_ARGS__)))
#define DYNAMIX_SCAN_2(...) DYNAMIX_SCAN_1(DYNAMIX_SCAN_1(DYNAMIX_SCAN_1(__VA_ARGS__)))
#define DYNAMIX_SCAN_1(...) __VA_ARGS__
#define DYNAMIX_PARENTHESES ()
#define DYNAMIX_VISIT(field, ...)                                                                                      \
  visit(#field, of.field);                                                                                             \
  __VA_OPT__(DYNAMIX_VISIT_NEXT DYNAMIX_PARENTHESES(__VA_ARGS__))
#define DYNAMIX_VISIT_NEXT() DYNAMIX_VISIT
#define DYNAMIX_FIELDS(type, ...)                                                                                      \
  template <class Self, class Visit>                                                                                   \
  requires std::same_as<std::remove_const_t<Self>, type>                                                               \
  void for_each_field(Self& of, Visit&& visit) {                                                                       \
    DYNAMIX_SCAN(DYNAMIX_VISIT(__VA_ARGS__))                                                                           \
  }

namespace dynamix::messages {

DYNAMIX_FIELDS(decision_key, term, window)
DYNAMIX_FIELDS(network_statistics, valid, throughput_bytes_per_second, rtt_seconds, retransmissions, source,
               rtt_p50_seconds, rtt_p99_seconds, gradient_bytes_per_second, control_bytes_per_second, segments_sent,
               sender_blocked_ratio, receiver_blocked_ratio, connection_resets, connections, congestion_window_segments)
DYNAMIX_FIELDS(system_statistics, valid, cpu_time_ratio, run_queue_wait_ratio, memory_ratio, source, training_valid,
               training_cpu_ratio, training_wait_ratio, training_stalled_ratio, involuntary_switches, page_faults,
               major_page_faults, cgroup_memory_bytes, throttled_ratio, pressure_valid, cpu_pressure_ratio,
               memory_pressure_ratio, io_pressure_ratio)
DYNAMIX_FIELDS(gpu_statistics, valid, utilisation_ratio, memory_ratio, throttled)
DYNAMIX_FIELDS(training_statistics, steps, samples, accuracy, loss, iteration_seconds, compute_seconds,
               exchange_seconds, data_seconds, gradient_valid, sigma_norm, sigma2_norm, gradient_norm, noise_scale,
               learning_rate, gain)
DYNAMIX_FIELDS(window_report, host, rank, generation, window, first_step, final, batch, decision, global_batch, epoch,
               epoch_samples, elapsed_seconds, training, network, system, telemetry_seconds, control_seconds, gpu,
               program_seconds, telemetry_choice)
DYNAMIX_FIELDS(evaluation_report, step, epoch, samples, elapsed_seconds, train_loss, test_loss, test_accuracy,
               global_batch, learning_rate)
DYNAMIX_FIELDS(decision_counts, received, applied, late, superseded, unapplied, stale_refused, duplicated)
DYNAMIX_FIELDS(farewell, host, rank, succeeded, reason, steps, samples, epochs, wall_seconds, final_accuracy,
               seconds_to_target, parameter_checksum, control_seconds, telemetry_seconds, decisions, incarnation)

} // namespace dynamix::messages

namespace dynamix::policy {

DYNAMIX_FIELDS(reward_terms, accuracy, gain, time, batch, noise, progress, total)
DYNAMIX_FIELDS(time_split, compute_seconds, cpu_wait_seconds, network_seconds, barrier_seconds, data_seconds,
               other_seconds)
DYNAMIX_FIELDS(judged_worker, report, stale, time, reward, state, probabilities, action, log_probability, value,
               assigned_batch, decided_batch, proposed_batch, intervention, reason, predicted_seconds, planned_batch)
DYNAMIX_FIELDS(promised_step, total, slowest_seconds, goodput)
DYNAMIX_FIELDS(window_prediction, exchange_seconds, noise_scale, assigned, decided, planned)
DYNAMIX_FIELDS(judged_window, key, generation, policy_version, decided, gather_seconds, decide_seconds, workers,
               predicted, guard)

} // namespace dynamix::policy

namespace dynamix::actors {

DYNAMIX_FIELDS(ledger_start, cluster, policy, mode, seed, window_steps, dataset_samples, epochs, target_accuracy,
               workers, state_fields, actions, scales, started_at, version, origin_seconds, clock)
DYNAMIX_FIELDS(ledger_evaluation, report)
DYNAMIX_FIELDS(ledger_policy, version, policy_loss, value_loss, entropy, approximate_kl, clip_fraction, parameters)
DYNAMIX_FIELDS(ledger_deciding, cluster_digest, parameters)
DYNAMIX_FIELDS(ledger_generation, generation, members, source, reason, steps, steps_lost)
DYNAMIX_FIELDS(ledger_event, event, host, text)
DYNAMIX_FIELDS(ledger_farewell, farewell)
DYNAMIX_FIELDS(ledger_shard, name, parent, level, workers, state)

} // namespace dynamix::actors

#undef DYNAMIX_FIELDS
#undef DYNAMIX_VISIT
#undef DYNAMIX_VISIT_NEXT
#undef DYNAMIX_PARENTHESES
#undef DYNAMIX_SCAN
#undef DYNAMIX_SCAN_1
#undef DYNAMIX_SCAN_2
#undef DYNAMIX_SCAN_3
