#include "policy/guard.hpp"

#include "policy/measured_cluster.hpp"
#include "policy/rivals.hpp"
#include "policy/state.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/core.h>
#include <optional>
#include <stdexcept>
#include <utility>

namespace dynamix::policy {
namespace {

using batches = std::vector<std::uint32_t>;

constexpr std::uint32_t fallback_windows = 3; ///< at least, once it has stepped in
constexpr std::uint32_t bound_windows = 8;
constexpr double off_the_bound = 0.1;   ///< relative
constexpr double range_slack = 0.1;     ///< of a range's width, and as much again
constexpr std::size_t outside_min = 2;  ///< entries of one worker's state
constexpr double unmeasured_growth = 2; ///< of the global batch over its initial size, without a noise scale

std::string decimals(double value, int places) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", places, value);
  return text;
}

bool finite(const choice& made) {
  const auto is_finite = [](float number) { return std::isfinite(number); };
  return std::ranges::all_of(made.probabilities, is_finite) && std::ranges::all_of(made.state, is_finite) &&
         is_finite(made.log_probability) && is_finite(made.value);
}

bool is_one_a_report(const std::vector<choice>& choices, const observation& observed) {
  return std::ranges::equal(choices, observed.report->reports, {}, &choice::rank, &messages::window_report::rank);
}

/// Why these are not choices for these reports; empty: they are.
std::string find_invalid(const std::vector<choice>& choices, const observation& observed) {
  const auto& reports = observed.report->reports;
  if (choices.size() != reports.size())
    return fmt::format("the policy made {} choices for {} workers", choices.size(), reports.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto& made = choices[i];
    if (made.rank != reports[i].rank)
      return fmt::format("the policy chose for rank {} in the place of {}", made.rank, reports[i].host);
    if (made.batch < observed.measured->lowest() || made.batch > observed.highest[i])
      return fmt::format("the policy gave {} {} samples, outside [{}, {}]", reports[i].host, made.batch,
                         observed.measured->lowest(), observed.highest[i]);
    if (!finite(made))
      return "the policy's numbers for " + reports[i].host + " are not finite";
  }
  return {};
}

struct promise {
  double wanted = 0; ///< predicted goodput of the policy's batch sizes
  double other = 0;  ///< of those that they are compared with

  double loss() const { return 1 - wanted / other; }
};

/// By the step-time tables or by the newest window, whichever is kinder to the policy: both are fair readings.
promise compare(const measured_cluster& measured, const batches& wanted, const batches& other) {
  const std::vector<belief> newest(measured.size(), belief::newest);
  const promise by_table{measured.judge(wanted).goodput, measured.judge(other).goodput};
  const promise by_newest{measured.judge(wanted, newest).goodput, measured.judge(other, newest).goodput};
  return by_table.loss() <= by_newest.loss() ? by_table : by_newest;
}

/// "the policy's batch sizes promise 4120 useful samples/s, 1.2 % less than the 4170 of goodput's"
std::string describe(const promise& promised, bool noise_known) {
  const double loss = 100 * promised.loss();
  return "the policy's batch sizes promise " + decimals(promised.wanted, 0) + " useful samples/s, " +
         decimals(std::abs(loss), 1) + (loss < 0 ? " % more" : " % less") + " than the " + decimals(promised.other, 0) +
         (noise_known ? " of goodput's" : " of the best split of as many");
}

/// What may be compared without a noise scale, which alone tells what a larger global batch is worth: splits.
batches best_split_of(const measured_cluster& measured, const batch_plan& wanted, std::uint64_t highest_total) {
  return measured.split(std::clamp(wanted.total, std::min(measured.least_planned(), highest_total), highest_total))
      .batches;
}

/// Index of the validity bit of every field's group; the size of the state for groups that have none. A bit is its own.
std::vector<std::size_t> find_validity_bits() {
  const auto fields = state_fields();
  std::vector<std::size_t> bits;
  for (const auto& field : fields) {
    const auto name = field.group == "validity" ? std::string(field.name) : std::string(field.group) + "_valid";
    bits.push_back(static_cast<std::size_t>(std::ranges::find(fields, name, &state_field::name) - fields.begin()));
  }
  return bits;
}

/// The entries that lie outside the range of training. A masked group says nothing, nor does its bit.
std::vector<std::size_t> find_outside(const std::vector<float>& state, const state_range& range) {
  static const auto bits = find_validity_bits();
  std::vector<std::size_t> outside;
  if (state.size() != range.low.size())
    return outside;
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (bits[i] < state.size() && state[bits[i]] == 0)
      continue;
    const auto slack = range_slack * (range.high[i] - range.low[i]) + range_slack;
    if (state[i] < range.low[i] - slack || state[i] > range.high[i] + slack)
      outside.push_back(i);
  }
  return outside;
}

std::string find_untrained(const std::vector<choice>& choices, const observation& observed, const state_range& range) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto outside = find_outside(choices[i].state, range);
    if (outside.size() < outside_min)
      continue;
    const auto first = outside.front();
    return fmt::format(
        "the policy was trained on {} from {} to {}, that of {} is {}, and {} more entries of its state are outside",
        state_fields()[first].name, decimals(range.low[first], 2), decimals(range.high[first], 2),
        observed.report->reports[i].host, decimals(choices[i].state[first], 2), outside.size() - 1);
  }
  return {};
}

/// Counts on for every worker, and says which one has been at its bound for too long.
std::string follow_bounds(guard_memory& memory, const observation& observed, const batches& wanted,
                          const batches& fallback) {
  std::string found;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& report = observed.report->reports[i];
    auto& run = memory.bounds[report.rank];
    const bool at_bound = wanted[i] == observed.measured->lowest() || wanted[i] == observed.highest[i];
    if (!at_bound || std::abs(static_cast<double>(fallback[i]) - wanted[i]) <= off_the_bound * wanted[i]) {
      run = {};
      continue;
    }
    run.windows = run.batch == wanted[i] ? run.windows + 1 : 1;
    run.batch = wanted[i];
    if (run.windows >= bound_windows && found.empty())
      found = fmt::format("the policy has kept {} at its bound for {} windows, where goodput gives it {} samples",
                          report.host, run.windows, fallback[i]);
  }
  return found;
}

guard_verdict step_in(std::string intervention, std::string reason, guard_memory memory) {
  memory.hold = fallback_windows - 1;
  auto view = reason;
  return {.intervention = std::move(intervention),
          .reason = std::move(reason),
          .memory = std::move(memory),
          .view = std::move(view)};
}

/// Its share follows decisions alone.
bool shares_cores(const messages::window_report& report) {
  return report.balance.shared_cpus > 0;
}

/// Whether the choices stand, of a generation that is remembered.
guard_verdict weigh(const std::vector<choice>& choices, const batches& fallback, const observation& observed,
                    const guard_rules& rules, guard_memory memory, const std::string& untrained) {
  if (auto wrong = find_invalid(choices, observed); !wrong.empty()) {
    memory.bounds.clear();
    return step_in("not a valid choice", std::move(wrong), std::move(memory));
  }
  const auto& measured = *observed.measured;
  if (!measured.any_measured())
    return {.memory = std::move(memory), .view = "nothing is measured yet, so every valid choice stands"};

  batches wanted;
  for (const auto& each : choices)
    wanted.push_back(each.batch);
  const bool noise_known = measured.noise_known();
  auto other = fallback;
  const bool balanced = rules.balanced && std::ranges::none_of(observed.report->reports, shares_cores);
  if (balanced) { // shares follow the paces, so that only the global batch counts
    wanted = measured.split(measured.judge(wanted).total).batches;
    other = measured.split(measured.judge(fallback).total).batches;
  }
  const auto plan = measured.judge(wanted);
  const auto grown = static_cast<std::uint64_t>(unmeasured_growth * static_cast<double>(measured.initial_total()));
  const auto highest_total = std::max(grown, measured.judge(observed.assigned).total);
  if (!noise_known && plan.total > highest_total)
    return step_in("growth without a noise scale",
                   fmt::format("the policy wants a global batch of {}, and no noise scale has been measured yet that "
                               "would speak for more than {}",
                               plan.total, highest_total),
                   std::move(memory));
  const auto promised = compare(measured, wanted, noise_known ? other : best_split_of(measured, plan, highest_total));
  const auto figures = describe(promised, noise_known);
  const auto stuck = follow_bounds(memory, observed, wanted, other);
  if (promised.loss() > rules.margin)
    return step_in("slower than goodput", figures, std::move(memory));
  auto outside = untrained.empty() ? find_untrained(choices, observed, rules.trained_on) : untrained;
  const bool matters = !balanced || promised.loss() > rules.margin / 2;
  if (matters && !outside.empty())
    return step_in("state outside training", std::move(outside), std::move(memory));
  if (!stuck.empty() && promised.loss() > 0)
    return step_in("batch stuck at a bound", stuck, std::move(memory));
  if (memory.hold > 0 && promised.loss() > rules.margin / 2) {
    --memory.hold;
    return {.intervention = "not close enough yet", .reason = figures, .memory = std::move(memory), .view = figures};
  }
  memory.hold = 0;
  return {.memory = std::move(memory),
          .view = figures + "; up to " + decimals(100 * rules.margin, 1) + " % less is let through"};
}

class guarded_controller final : public controller {
public:
  guarded_controller(std::unique_ptr<controller> learned, guard_rules rules)
      : learned_(std::move(learned)), heuristic_(make_goodput()), rules_(std::move(rules)) {}

  std::string name() const override { return learned_->name(); }
  bool learns() const override { return learned_->learns(); }
  std::string adopt(const messages::policy_version& version) override { return learned_->adopt(version); }
  std::uint64_t version() const override { return learned_->version(); }
  std::string guard_view() const override { return view_; }

  void survey(const observation& all, ruling& result) const override { learned_->survey(all, result); }
  std::vector<choice> propose(const observation& own, const ruling& known) override {
    return learned_->propose(own, known);
  }
  std::string untrained(const observation& own, const std::vector<choice>& choices) const override {
    return find_untrained(choices, own, rules_.trained_on);
  }

  void rule(const observation& all, const std::vector<choice>& proposals, const std::string& untrained,
            ruling& result) override {
    auto wanted = proposals;
    if (is_one_a_report(proposals, all)) {
      learned_->rule(all, proposals, untrained, result);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        wanted[i].batch = result.workers[i].ruled;
    }
    const auto fallback = fall_back(all);
    auto verdict = review(wanted, fallback, all, rules_, std::move(memory_), untrained);
    memory_ = std::move(verdict.memory);
    view_ = std::move(verdict.view);
    if (verdict.intervention.empty())
      return;
    result.intervention = std::move(verdict.intervention);
    result.reason = std::move(verdict.reason);
    for (const auto& each : wanted)
      result.overridden.push_back(each.batch);
    result.overridden.resize(fallback.size());
    rule_batches(all, fallback, result);
  }

  void settle(const observation& own, const ruling& known, std::vector<choice>& choices) override {
    learned_->settle(own, known, choices);
    const bool steps_in = !known.intervention.empty();
    if (steps_in)
      choices.resize(own.report->reports.size());
    for (std::size_t i = 0; i < choices.size(); ++i) {
      auto& made = choices[i];
      if (steps_in) {
        made.rank = own.report->reports[i].rank;
        if (!known.overridden.empty())
          made.batch = known.overridden[i];
        const auto ruled = guidance_for(known, made.rank).ruled;
        put_in_place(made, ruled == 0 ? own.assigned[i] : std::min(ruled, own.highest[i]), known.intervention,
                     known.reason);
      } else if (!finite(made)) {
        put_in_place(made, own.assigned[i], "not a valid choice", "the policy's numbers are not finite");
      }
    }
  }

private:
  batches fall_back(const observation& observed) {
    batches fallback;
    for (const auto& each : heuristic_->choose_all(observed))
      fallback.push_back(
          std::clamp(each.batch, observed.measured->lowest(), observed.highest[fallback.size()])); // what is assigned
    return fallback;
  }

  static void put_in_place(choice& made, std::uint32_t batch, const std::string& intervention,
                           const std::string& reason) {
    if (!finite(made))
      made = {.rank = made.rank, .batch = made.batch}; // the ledger and the learner hold numbers only
    made.proposed = std::exchange(made.batch, batch);
    made.action = -1;
    made.intervention = intervention;
    made.reason = fmt::format("guard: {}; {} by goodput instead of {}", reason, made.batch, made.proposed);
  }

  std::unique_ptr<controller> learned_;
  std::unique_ptr<joint_controller> heuristic_;
  guard_rules rules_;
  guard_memory memory_;
  std::string view_;
};

} // namespace

guard_verdict review(const std::vector<choice>& choices, const std::vector<std::uint32_t>& fallback,
                     const observation& observed, const guard_rules& rules, guard_memory memory,
                     const std::string& untrained) {
  if (memory.generation != observed.report->generation)
    memory = {.generation = observed.report->generation};
  return weigh(choices, fallback, observed, rules, std::move(memory), untrained);
}

std::unique_ptr<controller> make_guarded(std::unique_ptr<controller> learned, const cluster::cluster_file& file,
                                         state_range trained_on) {
  const auto sizes = {trained_on.low.size(), trained_on.high.size()};
  if (!std::ranges::all_of(sizes, [](std::size_t size) { return size == 0; }) &&
      !std::ranges::all_of(sizes, [](std::size_t size) { return size == state_size(); }))
    throw std::invalid_argument("the range that the policy was trained on is not one of this program's states");
  return std::make_unique<guarded_controller>(std::move(learned), guard_rules{.margin = file.arbitrator.guard_margin,
                                                                              .trained_on = std::move(trained_on),
                                                                              .balanced = file.balances()});
}

} // namespace dynamix::policy
