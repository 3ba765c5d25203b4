#include "faults/plan_fields.hpp"

#include <array>
#include <fmt/core.h>

namespace dynamix::faults {
namespace {

using settings::in;
using settings::presence;

constexpr settings::entry_count one_or_more = {.least = 1, .most = 64, .bare = true};
constexpr auto limits = &fault_plan::limits;

constexpr settings::range seconds = {.low = 0, .high = 1e6};
constexpr settings::range seconds_above_0 = {.low = 0, .high = 1e6, .low_open = true};
constexpr settings::range count = {.low = 0, .high = 1e9};
constexpr settings::range count_from_1 = {.low = 1, .high = 1e9};

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

/// A [[fault]] has exactly one of them.
constexpr settings::field<fault_rule> trigger(std::string_view name, rule_locator locate, std::string_view doc,
                                              settings::range allowed) {
  return {
      .section = "fault", .name = name, .locate = locate, .doc = doc, .allowed = allowed, .presence = presence::absent};
}
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
      {.section = "plan",
       .name = "name",
       .locate = in<&fault_plan::name>,
       .doc = "Of the plan; by default its file's name.",
       .rule = &line_rule,
       .presence = presence::absent},
      {.section = "plan",
       .name = "cluster",
       .locate = in<&fault_plan::cluster>,
       .doc = "The cluster file; a relative path starts at the plan's directory. `--cluster` overrides it.",
       .rule = &line_rule,
       .presence = presence::absent},
      {"plan", "seed", in<&fault_plan::seed>, "Of everything that the plan leaves to chance. `--seed` overrides it.",
       settings::closed(0, 9007199254740992)},
      {"plan", "compare", in<&fault_plan::compare>,
       "Runs the cluster unharmed first, and compares the final accuracy."},
      {"plan", "one_at_a_time", in<&fault_plan::one_at_a_time>,
       "A fault waits until the one before it is over and recovered from."},
      {"plan", "settle_seconds", in<&fault_plan::settle_seconds>, "And so much longer.", seconds},
      {.section = "plan",
       .name = "after_last_fault_seconds",
       .locate = in<&fault_plan::after_last_fault_seconds>,
       .doc = "So long after the last fault was recovered from, training ends in an orderly way; without it, as the "
              "cluster file says. Needs `compare = false`, and a `repeat` where faults come at random.",
       .allowed = seconds,
       .presence = presence::absent},
      {"plan",
       "network",
       in<&fault_plan::network>,
       "Where connections are broken: in a proxy, or between network namespaces (needs root; partitions cut the "
       "gradients too).",
       {},
       network_names},

      {"limits", "steps_lost_per_fault", in<limits, &fault_limits::steps_lost_per_fault>,
       "Steps that a fault may cost, on average.", count},
      {"limits", "detect_seconds", in<limits, &fault_limits::detect_seconds>,
       "From a fault to the ledger's word of it, each; 0 sets no limit.", seconds},
      {"limits", "resume_seconds", in<limits, &fault_limits::resume_seconds>,
       "From a fault to the next completed step, p99; 0 sets no limit.", seconds},
      {"limits", "recover_seconds", in<limits, &fault_limits::recover_seconds>,
       "From a fault's end until its target is back at work, each.", seconds_above_0},
      {"limits", "accuracy_drop", in<limits, &fault_limits::accuracy_drop>,
       "How far the final accuracy may lie below the unharmed run's.", settings::closed(0, 1)},
      {"limits", "memory_growth_mib", in<limits, &fault_limits::memory_growth_mib>,
       "Growth of a process through 100 faults, its first minute left out, and of fewer than 100 the same; one that "
       "lived through fewer than 10 is not judged; 0 sets no limit.",
       settings::closed(0, 1e6)},
  };
  return table;
}

std::span<const settings::field<fault_rule>> rule_fields() {
  static const settings::field<fault_rule> table[] = {
      {.section = "fault",
       .name = "kind",
       .locate = in<&fault_rule::kinds>,
       .doc = "What happens: one kind, or a list of which one is drawn each time.",
       .choices = kind_names,
       .presence = presence::required,
       .entries = one_or_more},
      {.section = "fault",
       .name = "target",
       .locate = in<&fault_rule::targets>,
       .doc = "Whom: a host's name, \"worker\", \"arbitrator\" or \"random\" (one of them is drawn), \"leader\", "
              "\"rank:N\", \"workers\" or \"arbitrators\" (all of them); or a list.",
       .rule = &line_rule,
       .presence = presence::required,
       .entries = one_or_more},
      trigger("at_seconds", in<&fault_rule::at_seconds>, "Trigger: so long after training began.", seconds),
      trigger("at_step", in<&fault_rule::at_step>, "Trigger: so many steps are known to be completed.", count),
      trigger("at_window", in<&fault_rule::at_window>, "Trigger: this window has closed.", count),
      trigger("rate_per_minute", in<&fault_rule::rate_per_minute>, "Trigger: at random, so often on average.",
              settings::open_low(6000)),
      {.section = "fault",
       .name = "every_seconds",
       .locate = in<&fault_rule::every_seconds>,
       .doc = "With `repeat`: from one start to the next, at least.",
       .allowed = seconds_above_0,
       .presence = presence::absent},
      {"fault", "repeat", in<&fault_rule::repeat>, "How often, in all.", count_from_1},
      {.section = "fault",
       .name = "duration_seconds",
       .locate = in<&fault_rule::duration_seconds>,
       .doc = "How long; of a process that ends: how long it is kept dead.",
       .allowed = seconds_above_0,
       .presence = presence::absent,
       .mark = has_duration | may_have_duration},
      of_kinds(has_factor, "factor", in<&fault_rule::factor>, "How many times slower.",
               {.low = 1, .high = 100, .low_open = true}),
      of_kinds(has_delay, "delay_ms", in<&fault_rule::delay_ms>, "One way.", settings::open_low(60000)),
      of_kinds(has_rate, "bytes_per_second", in<&fault_rule::bytes_per_second>, "Each way.", settings::closed(1, 1e9)),
      of_kinds(has_direction, "direction", in<&fault_rule::direction>,
               "\"out\" is what the target sends, \"in\" what it gets.", {}, direction_names),
      of_kinds(has_jump, "jump_seconds", in<&fault_rule::jump_seconds>, "Forward; negative: back.",
               settings::closed(-1e9, 1e9)),
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
