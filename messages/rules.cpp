#include "messages/rules.hpp"

#include <algorithm>

namespace dynamix::messages {
namespace {

void check_key(checker& check, std::string_view name, decision_key key) {
  check.require(key.window > 0 || key.term == 0, name, "has a term but no window");
}

/// Older senders name one protocol alone.
void check_protocols(checker& check, std::uint32_t oldest, std::uint32_t newest) {
  check.require(newest == 0 || newest >= oldest, "newest_protocol", "is below protocol");
}

void check_source(checker& check, signal_source source, bool valid) {
  check.require(!valid || source != signal_source::none, "source", "is none for a valid signal");
}

/// A report in the window of a shard.
void check_report(checker& check, std::size_t index, const window_report& report, std::uint64_t generation,
                  std::uint64_t window) {
  if (report.generation != generation)
    check.require(false, element("reports", index), "is of another generation");
  if (report.window > window)
    check.require(false, element("reports", index), "is of a later window");
}

} // namespace

void check_together(checker& check, const hello& value) {
  check_protocols(check, value.protocol, value.newest_protocol);
  check_key(check, "last_decision", value.last_decision);
  check.require(!value.training || value.generation > 0, "training", "is in no generation");
  check.require(value.training == !value.members.empty(), "members", "are none of whoever trains, or some of another");
  check.require(value.left_because.empty() || (!value.training && value.generation > 0), "left_because",
                "is of one that has come out of no generation");
  check.range("attempted_steps", value.attempted_steps, value.steps, max_counter);
}

void check_together(checker& check, const network_statistics& value) {
  check_source(check, value.source, value.valid);
}

void check_together(checker& check, const system_statistics& value) {
  check_source(check, value.source, value.valid);
}

void check_together(checker& check, const window_report& value) {
  check_key(check, "decision", value.decision);
}

void check_together(checker& check, const decision_counts& value) {
  check.range<std::uint64_t>("late", value.late, 0, value.applied);
  check.range<std::uint64_t>("applied", value.applied, 0, value.received);
  check.range<std::uint64_t>("superseded", value.superseded, 0, value.received - value.applied);
  check.require(value.unapplied == value.received - value.applied - value.superseded, "unapplied",
                "is not received - applied - superseded");
}

void check_together(checker& check, const farewell& value) {
  const bool good = value.end == farewell_end::completed || value.end == farewell_end::stopped;
  check.require(value.end == farewell_end::unspecified || good == value.succeeded, "end", "contradicts succeeded");
}

void check_together(checker& check, const shard_report& value) {
  check.size("reports", value.reports.size(), 0, value.expected);
  for (std::size_t i = 0; i < value.reports.size(); ++i)
    check_report(check, i, value.reports[i], value.generation, value.window);
}

void check_together(checker& check, const decision& value) {
  check.range<std::uint64_t>("key.window", value.key.window, 1, max_counter);
  check_key(check, "key", value.key);
}

void check_together(checker& check, const trajectory& value) {
  const auto other_size = [&](const transition& one) { return one.state.size() != value.transitions[0].state.size(); };
  const auto found = std::ranges::find_if(value.transitions, other_size);
  if (found != value.transitions.end())
    check.require(false, element("transitions", static_cast<std::size_t>(found - value.transitions.begin())),
                  "has a state of another size than the first");
}

void check_together(checker& check, const store_operation& value) {
  const bool several = value.verb == store_verb::check;
  const std::size_t least = value.verb == store_verb::count ? 0 : 1;
  check.size("keys", value.keys.size(), least, several ? max_store_keys : least);
  check.size("value", value.value.size(), 0, value.verb == store_verb::set ? max_store_value_bytes : 0);
  check.require(value.amount == 0 || value.verb == store_verb::add, "amount", "is only for add");
}

void check_together(checker& check, const store_result& value) {
  check.size("value", value.value.size(), 0, value.status == store_status::ok ? max_store_value_bytes : 0);
}

void check_together(checker& check, const placement& value) {
  check.require(std::ranges::binary_search(value.members, value.source), "source", "is not a member");
}

void check_together(checker& check, const worker_choice& value) {
  check.require(!value.acted || value.vote >= 0, "acted", "is on no action");
}

void check_together(checker& check, const shard_window& value) {
  check.size("reports", value.reports.size(), 0, value.expected);
  check.require(value.choices.size() == value.reports.size(), "choices", "are not one a report");
  for (std::size_t i = 0; i < std::min(value.reports.size(), value.choices.size()); ++i) {
    check_report(check, i, value.reports[i], value.generation, value.window);
    if (value.choices[i].rank != value.reports[i].rank)
      check.require(false, element("choices", i), "is of another worker");
  }
}

void check_together(checker& check, const shard_hello& value) {
  check_protocols(check, value.protocol, value.newest_protocol);
}

void check_together(checker& check, const client_hello& value) {
  check_protocols(check, value.protocol, value.newest_protocol);
  check.require(value.position < value.members, "position", "is not below members");
}

void check_together(checker& check, const client_welcome& value) {
  if (value.verdict != client_verdict::accepted)
    return;
  check.require(!value.host.empty(), "host", "is empty");
  check.require(value.rank < value.workers, "rank", "is not below workers");
  check.require(value.settle_steps < value.window_steps, "settle_steps", "are not below window_steps");
  check.require(value.lowest_batch >= 1 && value.lowest_batch <= value.highest_batch, "lowest_batch",
                "is not in [1, highest_batch]");
  check.require(value.initial_batch >= value.lowest_batch && value.initial_batch <= value.highest_batch,
                "initial_batch", "is not in [lowest_batch, highest_batch]");
}

} // namespace dynamix::messages
