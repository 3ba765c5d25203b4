#include "faults/plan_fields.hpp"

namespace dynamix::faults {
namespace {

constexpr cluster::range seconds = {.low = 0, .high = 1e6};
constexpr cluster::range seconds_above_0 = {.low = 0, .high = 1e6, .low_open = true};
constexpr cluster::range count = {.low = 0, .high = 1e9};
constexpr cluster::range count_from_1 = {.low = 1, .high = 1e9};

} // namespace

std::span<const plan_field<fault_plan>> plan_fields() {
  static const plan_field<fault_plan> table[] = {
      {"name", [](fault_plan& p) -> place { return &p.name; }, "Of the plan; by default its file's name."},
      {"cluster", [](fault_plan& p) -> place { return &p.cluster; },
       "The cluster file; a relative path starts at the plan's directory. `--cluster` overrides it."},
      {"seed",
       [](fault_plan& p) -> place { return &p.seed; },
       "Of everything that the plan leaves to chance. `--seed` overrides it.",
       {.low = 0, .high = 9007199254740992}},
      {"compare", [](fault_plan& p) -> place { return &p.compare; },
       "Runs the cluster unharmed first, and compares the final accuracy."},
      {"one_at_a_time", [](fault_plan& p) -> place { return &p.one_at_a_time; },
       "A fault waits until the one before it is over and recovered from."},
      {"settle_seconds", [](fault_plan& p) -> place { return &p.settle_seconds; }, "And so much longer.", seconds},
      {"after_last_fault_seconds", [](fault_plan& p) -> place { return &p.after_last_fault_seconds; },
       "So long after the last fault was recovered from, training ends in an orderly way; without it, as the cluster "
       "file says. Needs `compare = false`, and a `repeat` where faults come at random.",
       seconds},
      {"network", [](fault_plan& p) -> place { return &p.network_name; },
       "Where connections are broken: \"proxy\", or \"namespaces\" (needs root; partitions cut the gradients too)."},
  };
  return table;
}

std::span<const plan_field<fault_limits>> limit_fields() {
  static const plan_field<fault_limits> table[] = {
      {"steps_lost_per_fault", [](fault_limits& l) -> place { return &l.steps_lost_per_fault; },
       "Steps that a fault may cost, on average.", count},
      {"detect_seconds", [](fault_limits& l) -> place { return &l.detect_seconds; },
       "From a fault to the ledger's word of it, each; 0 sets no limit.", seconds},
      {"resume_seconds", [](fault_limits& l) -> place { return &l.resume_seconds; },
       "From a fault to the next completed step, p99; 0 sets no limit.", seconds},
      {"recover_seconds", [](fault_limits& l) -> place { return &l.recover_seconds; },
       "From a fault's end until its target is back at work, each.", seconds_above_0},
      {"accuracy_drop",
       [](fault_limits& l) -> place { return &l.accuracy_drop; },
       "How far the final accuracy may lie below the unharmed run's.",
       {.low = 0, .high = 1}},
      {"memory_growth_mib",
       [](fault_limits& l) -> place { return &l.memory_growth_mib; },
       "Growth of a process through 100 faults, its first minute left out, and of fewer than 100 the same; one that "
       "lived through fewer than 10 is not judged; 0 sets no limit.",
       {.low = 0, .high = 1e6}},
  };
  return table;
}

std::span<const plan_field<rule_entry>> rule_fields() {
  static const plan_field<rule_entry> table[] = {
      {.name = "kind",
       .locate = [](rule_entry& r) -> place { return &r.kinds; },
       .doc = "What happens: one kind, or a list of which one is drawn each time.",
       .required = true},
      {.name = "target",
       .locate = [](rule_entry& r) -> place { return &r.targets; },
       .doc = "Whom: a host's name, \"worker\", \"arbitrator\" or \"random\" (one of them is drawn), \"leader\", "
              "\"rank:N\", \"workers\" or \"arbitrators\" (all of them); or a list.",
       .required = true},
      {"at_seconds", [](rule_entry& r) -> place { return &r.rule.at_seconds; },
       "Trigger: so long after training began.", seconds},
      {"at_step", [](rule_entry& r) -> place { return &r.rule.at_step; },
       "Trigger: so many steps are known to be completed.", count},
      {"at_window", [](rule_entry& r) -> place { return &r.rule.at_window; }, "Trigger: this window has closed.",
       count},
      {"rate_per_minute",
       [](rule_entry& r) -> place { return &r.rule.rate_per_minute; },
       "Trigger: at random, so often on average.",
       {.low = 0, .high = 6000, .low_open = true}},
      {"every_seconds", [](rule_entry& r) -> place { return &r.rule.every_seconds; },
       "With `repeat`: from one start to the next, at least.", seconds_above_0},
      {"repeat", [](rule_entry& r) -> place { return &r.rule.repeat; }, "How often, in all.", count_from_1},
      {"duration_seconds", [](rule_entry& r) -> place { return &r.rule.duration_seconds; },
       "How long; of a process that ends: how long it is kept dead.", seconds_above_0, false,
       has_duration | may_have_duration},
      {"factor",
       [](rule_entry& r) -> place { return &r.rule.factor; },
       "How many times slower.",
       {.low = 1, .high = 100, .low_open = true},
       false,
       has_factor},
      {"delay_ms",
       [](rule_entry& r) -> place { return &r.rule.delay_ms; },
       "One way.",
       {.low = 0, .high = 60000, .low_open = true},
       false,
       has_delay},
      {"bytes_per_second",
       [](rule_entry& r) -> place { return &r.rule.bytes_per_second; },
       "Each way.",
       {.low = 1, .high = 1e9},
       false,
       has_rate},
      {"direction",
       [](rule_entry& r) -> place { return &r.direction; },
       "\"both\", \"out\" (what the target sends) or \"in\".",
       {},
       false,
       has_direction},
      {"jump_seconds",
       [](rule_entry& r) -> place { return &r.rule.jump_seconds; },
       "Forward; negative: back.",
       {.low = -1e9, .high = 1e9},
       false,
       has_jump},
  };
  return table;
}

} // namespace dynamix::faults
