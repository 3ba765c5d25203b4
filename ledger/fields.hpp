#pragma once

/// What of each struct the ledger keeps, once for writing and reading: `for_each_field(value, visit)` calls
/// `visit(name, field)` for each, in order; of messages, it keeps every field (messages/fields.hpp). A list that leaves
/// a field of its struct out does not compile. A field that an older ledger lacks keeps its default.

#include "ledger/rows.hpp"
#include "messages/fields.hpp"

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
    [[maybe_unused]] const auto& [__VA_ARGS__] = of; /* does not compile where a field is left out */                  \
    DYNAMIX_SCAN(DYNAMIX_VISIT(__VA_ARGS__))                                                                           \
  }

namespace dynamix::policy {

DYNAMIX_FIELDS(reward_terms, accuracy, gain, time, batch, noise, progress, total)
DYNAMIX_FIELDS(time_split, compute_seconds, cpu_wait_seconds, network_seconds, barrier_seconds, data_seconds,
               other_seconds)
DYNAMIX_FIELDS(judged_worker, report, stale, time, reward, state, probabilities, action, log_probability, value,
               assigned_batch, decided_batch, proposed_batch, intervention, reason, predicted_seconds, planned_batch)
DYNAMIX_FIELDS(promised_step, total, slowest_seconds, goodput)
DYNAMIX_FIELDS(window_prediction, exchange_seconds, noise_scale, noise_error, assigned, decided, planned)
DYNAMIX_FIELDS(judged_window, key, generation, policy_version, decided, gather_seconds, decide_seconds, workers,
               predicted, guard, forgotten)

} // namespace dynamix::policy

namespace dynamix::ledger {

DYNAMIX_FIELDS(start, cluster, policy, mode, seed, window_steps, dataset_samples, epochs, target_accuracy, workers,
               state_fields, actions, scales, started_at, version, origin_seconds, clock, gradients)
DYNAMIX_FIELDS(evaluation, report)
DYNAMIX_FIELDS(policy_version, version, policy_loss, value_loss, entropy, approximate_kl, clip_fraction, parameters)
DYNAMIX_FIELDS(deciding, cluster_digest, parameters)
DYNAMIX_FIELDS(tree, known, accounts, votes, untrained)
DYNAMIX_FIELDS(generation, generation, members, source, reason, steps, steps_lost)
DYNAMIX_FIELDS(event, event, host, text)
DYNAMIX_FIELDS(farewell, farewell)
DYNAMIX_FIELDS(shard, name, parent, level, workers, state)

} // namespace dynamix::ledger

#undef DYNAMIX_FIELDS
#undef DYNAMIX_VISIT
#undef DYNAMIX_VISIT_NEXT
#undef DYNAMIX_PARENTHESES
#undef DYNAMIX_SCAN
#undef DYNAMIX_SCAN_1
#undef DYNAMIX_SCAN_2
#undef DYNAMIX_SCAN_3
