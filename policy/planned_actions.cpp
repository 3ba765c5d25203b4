#include "policy/planned_actions.hpp"

#include "policy/actions.hpp"

#include <cmath>
#include <fmt/core.h>

namespace dynamix::policy {
namespace {

constexpr double rounding = 1e-9;

} // namespace

planned_action to_planned_action(std::size_t index, std::span<const std::int32_t> scales) {
  return {.scale = scales[index / beliefs], .how = static_cast<belief>(index % beliefs)};
}

std::size_t draw_planned_action(std::span<const float> probabilities, std::mt19937_64 common, std::mt19937_64& own) {
  std::vector<float> of_scale(probabilities.size() / beliefs);
  for (std::size_t i = 0; i < probabilities.size(); ++i)
    of_scale[i / beliefs] += probabilities[i];
  const auto scale = draw_action(of_scale, common);
  return scale * beliefs + draw_action(probabilities.subspan(scale * beliefs, beliefs), own);
}

planned_target find_planned_target(const measured_cluster& measured, std::span<const planned_action> actions,
                                   const std::vector<std::uint32_t>& assigned, bool tries_votes) {
  double votes = 0;
  std::vector<belief> how;
  for (const auto& action : actions) {
    votes += std::log(action.scale / 100.0);
    how.push_back(action.how);
  }
  const auto scale = std::exp(votes / static_cast<double>(actions.size()));
  auto plan = measured.best(how);
  // A little more, so that rounding does not cost the sample that takes exactly the planned time.
  const auto whole = plan.level_seconds * (1 + rounding);
  if (std::abs(scale - 1) > rounding && !measured.early()) {
    const auto part = measured.within(scale * whole, how).total;
    const auto all = measured.within(whole, how).total;
    const auto total = static_cast<double>(plan.total) * static_cast<double>(part) / static_cast<double>(all);
    plan = measured.split(static_cast<std::uint64_t>(std::llround(total)), how);
    if (tries_votes) {
      plan = measured.keep_shares(std::move(plan), assigned, how);
      const auto seconds = plan.slowest_seconds * (1 + rounding);
      return {.plan = std::move(plan), .seconds = seconds, .reason = "is tried, as the policy learns unguarded"};
    }
  }
  auto [reason, worthwhile] = measured.worthwhile(std::move(plan), assigned, how);
  const auto seconds = worthwhile.batches == assigned ? 0 : worthwhile.slowest_seconds * (1 + rounding);
  return {.plan = std::move(worthwhile), .seconds = seconds, .reason = std::move(reason)};
}

std::string describe(const planned_action& action, std::uint64_t total) {
  static constexpr const char* words[beliefs] = {"its measured times", "its newest window", "its times and 10 % more"};
  return fmt::format("votes {} % of the planned step, goes by {}; {} in all", action.scale,
                     words[static_cast<std::size_t>(action.how)], total);
}

void survey_plan(const measured_cluster& measured, const batch_plan& plan, const std::vector<std::uint32_t>& assigned,
                 const messages::shard_report& all, messages::guidance& result) {
  result.planned = measured.any_measured();
  if (!result.planned)
    return;
  const auto now = measured.judge(assigned);
  result.workers.resize(measured.size());
  for (std::size_t i = 0; i < measured.size(); ++i) {
    result.workers[i] = {.rank = all.reports[i].rank, .planned = plan.batches[i]};
    if (std::abs(measured.surprise(i)) > std::abs(result.surprise_largest))
      result.surprise_largest = measured.surprise(i);
  }
  const auto exchange = measured.exchange_seconds();
  result.planned_total = static_cast<double>(plan.total);
  result.assigned_total = static_cast<double>(now.total);
  result.gain = plan.goodput / now.goodput;
  result.exchange_over_step = exchange / (exchange + plan.slowest_seconds);
  result.noise_trend = measured.noise_trend();
}

plan_view view_plan(const measured_cluster& measured, std::size_t worker, const messages::guidance& known,
                    std::uint32_t planned_batch) {
  if (!known.planned)
    return {};
  return {.valid = true,
          .planned_batch = static_cast<double>(planned_batch),
          .planned_total = known.planned_total,
          .assigned_total = known.assigned_total,
          .gain = known.gain,
          .surprise = measured.surprise(worker),
          .surprise_largest = known.surprise_largest,
          .jitter = measured.jitter(worker),
          .exchange_over_step = known.exchange_over_step,
          .noise_trend = known.noise_trend};
}

} // namespace dynamix::policy
