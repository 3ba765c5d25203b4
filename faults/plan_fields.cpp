#include "faults/plan_fields.hpp"

#include "settings/rows.hpp"

#include <array>
#include <fmt/core.h>

namespace dynamix::faults {
namespace {

using settings::choice_row;
using settings::in;
using settings::number_row;
using settings::presence;
using settings::text_row;

constexpr settings::entry_count one_or_more = {.least = 1, .most = 64, .bare = true};
constexpr auto limits = &fault_plan::limits;

constexpr settings::range seconds = {.low = 0, .high = 1e6};
constexpr settings::range seconds_above_0 = {.low = 0, .high = 1e6, .low_open = true};
constexpr settings::range whole = {.low = 0, .high = 1e9};
constexpr settings::range whole_from_1 = {.low = 1, .high = 1e9};

constexpr settings::text_rule line_rule = {
    [](const std::string& text) { return !text.empty() && settings::is_line(text, 4096); },
    "one line of 1 to 4096 characters"};

// In the order of the enumerations.
constexpr std::string_view network_names[] = {"proxy", "namespaces"};
constexpr std::string_view direction_names[] = {"both", "out", "in"};
constexpr auto kind_names = [] {
  std::array<std::string_view, fault_kinds.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i)
    names[i] = fault_kinds[i].name;
  return names;
}();

using rule_locator = settings::target (*)(fault_rule&);

/// What only some kinds have.
constexpr settings::field<fault_rule> of_kinds(fault_field having, std::string_view name, rule_locator locate,
                                               std::string_view doc, settings::range allowed,
                                               std::span<const std::string_view> choices = {}) {
  return {.section = "fault",
          .name = name,
          .locate = locate,
          .doc = doc,
          .allowed = allowed,
          .choices = choices,
          .mark = having};
}

} // namespace

std::span<const settings::field<fault_plan>> plan_fields() {
  static const settings::field<fault_plan> table[] = {
      text_row("plan", "name", in<&fault_plan::name>, "Name of the plan; its file's name by default.", line_rule,
               presence::absent),
      text_row("plan", "cluster", in<&fault_plan::cluster>,
               "The cluster file; a relative path starts at the plan's directory. `--cluster` overrides it.", line_rule,
               presence::absent),
      {"plan", "seed", in<&fault_plan::seed>, "Seed of the plan's random choices. `--seed` overrides it.",
       settings::closed(0, 9007199254740992)},
      {"plan", "compare", in<&fault_plan::compare>,
       "Run the cluster without faults first and compare the final accuracy."},
      {"plan", "one_at_a_time", in<&fault_plan::one_at_a_time>,
       "A fault waits until the previous one has ended and its target has recovered."},
      {"plan", "settle_seconds", in<&fault_plan::settle_seconds>, "How much longer it then waits.", seconds},
      number_row(
          "plan", "after_last_fault_seconds", in<&fault_plan::after_last_fault_seconds>,
          "Stop training in order this long after recovery from the last fault; without it, training ends as the "
          "cluster file says. Needs `compare = false`, and a `repeat` for random faults.",
          seconds, presence::absent),
      choice_row("plan", "network", in<&fault_plan::network>,
                 "Where connections are broken: in a proxy, or between network namespaces (needs root; partitions cut "
                 "gradients too).",
                 network_names),
      text_row(
          "plan", "script", in<&fault_plan::script>,
          "What trains where the file says `trainer = \"client\"`: of every training process a single command, in "
          "whose place no shell stays (several need `sh -c`). It runs in the plan's directory, ends with its host and "
          "is started again when it dies. It is told "
          "`$RANK`, `$WORLD_SIZE` (with the hosts that join), `$LOCAL_RANK`, `$DYNAMIX_AGENT` and `$DYNAMIX_RUN`, the "
          "run directory. Needs `compare = false`.",
          line_rule, presence::absent),
      text_row(
          "plan", "check", in<&fault_plan::check>,
          "A command of the same kind, run once training is over: if it ends with another code than 0, the verdict is "
          "not clean, for the reason that it prints last.",
          line_rule, presence::absent),

      {"limits", "steps_lost_per_fault", in<limits, &fault_limits::steps_lost_per_fault>,
       "Steps that a fault may cost on average; of no meaning with `script`.", whole},
      {"limits", "detect_seconds", in<limits, &fault_limits::detect_seconds>,
       "Time from each fault until the ledger reports it; 0: no limit.", seconds},
      {"limits", "resume_seconds", in<limits, &fault_limits::resume_seconds>,
       "Time from a fault to the next completed step, p99; 0: no limit.", seconds},
      {"limits", "recover_seconds", in<limits, &fault_limits::recover_seconds>,
       "Time from the end of each fault until its target has recovered.", seconds_above_0},
      {"limits", "accuracy_drop", in<limits, &fault_limits::accuracy_drop>,
       "How far the final accuracy may fall below that of the run without faults.", settings::closed(0, 1)},
      {"limits", "memory_growth_mib", in<limits, &fault_limits::memory_growth_mib>,
       "Growth of a process over 100 faults, its first minute excluded; the same limit for fewer than 100. A process "
       "that lived through fewer than 10 is not judged; 0: no limit.",
       settings::closed(0, 1e6)},
  };
  return table;
}

std::span<const settings::field<fault_rule>> rule_fields() {
  static const settings::field<fault_rule> table[] = {
      {.section = "fault",
       .name = "kind",
       .locate = in<&fault_rule::kinds>,
       .doc = "The kind of fault, or a list from which one is drawn each time.",
       .choices = kind_names,
       .presence = presence::required,
       .entries = one_or_more},
      text_row(
          "fault", "target", in<&fault_rule::targets>,
          "A host's name, \"worker\", \"arbitrator\" or \"random\" (one of them is drawn), \"leader\", "
          "\"rank:N\", \"workers\" or \"arbitrators\" (all of them), or \"ada/3\", the script of a host's worker; or "
          "a list.",
          line_rule, presence::required, one_or_more),
      number_row("fault", "at_seconds", in<&fault_rule::at_seconds>, "Trigger: time since training began.", seconds,
                 presence::absent),
      number_row("fault", "at_step", in<&fault_rule::at_step>, "Trigger: number of completed steps.", whole,
                 presence::absent),
      number_row("fault", "at_window", in<&fault_rule::at_window>, "Trigger: this window has closed.", whole,
                 presence::absent),
      number_row("fault", "rate_per_minute", in<&fault_rule::rate_per_minute>,
                 "Trigger: at random, at this average rate.", settings::open_low(6000), presence::absent),
      number_row("fault", "every_seconds", in<&fault_rule::every_seconds>,
                 "With `repeat`: shortest time from one start to the next.", seconds_above_0, presence::absent),
      {"fault", "repeat", in<&fault_rule::repeat>, "How often in all.", whole_from_1},
      {.section = "fault",
       .name = "duration_seconds",
       .locate = in<&fault_rule::duration_seconds>,
       .doc = "How long the fault lasts; for a process that ends, how long it stays dead.",
       .allowed = seconds_above_0,
       .presence = presence::absent,
       .mark = has_duration | may_have_duration},
      of_kinds(has_factor, "factor", in<&fault_rule::factor>, "Slow-down factor.",
               {.low = 1, .high = 100, .low_open = true}),
      of_kinds(has_delay, "delay_ms", in<&fault_rule::delay_ms>, "Delay one way.", settings::open_low(60000)),
      of_kinds(has_rate, "bytes_per_second", in<&fault_rule::bytes_per_second>, "Bandwidth each way.",
               settings::closed(1, 1e9)),
      of_kinds(has_direction, "direction", in<&fault_rule::direction>,
               "\"out\" is what the target sends, \"in\" what it receives.", {}, direction_names),
      of_kinds(has_jump, "jump_seconds", in<&fault_rule::jump_seconds>, "Shift of the clock; negative: backwards.",
               settings::closed(-1e9, 1e9)),
      of_kinds(has_workers, "workers", in<&fault_rule::workers>, "Training processes of a host that joins.",
               settings::closed(1, 256)),
  };
  return table;
}

std::string describe_plan_markdown() {
  const fault_plan plan;
  const fault_rule rule;
  std::string text = settings::to_markdown("[plan]", settings::show(plan_fields(), plan, "plan")) +
                     settings::to_markdown("[limits]", settings::show(plan_fields(), plan, "limits")) +
                     settings::to_markdown("[[fault]]", settings::show(rule_fields(), rule)) +
                     "### Kinds\n\n| kind | what happens |\n|---|---|\n";
  for (const auto& row : fault_kinds)
    text += fmt::format("| `{}` | {} |\n", row.name, row.doc);
  return text;
}

} // namespace dynamix::faults
