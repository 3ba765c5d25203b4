#include "policy/planned_actions.hpp"

#include "policy/actions.hpp"

#include <cmath>

namespace dynamix::policy {
namespace {

constexpr double dead_band = 0.04; ///< relative change of a batch size that is not worth it

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

batch_plan apply_planned_actions(const measured_cluster& measured, std::span<const planned_action> actions,
                                 const std::vector<std::uint32_t>& assigned) {
  double votes = 0;
  std::vector<belief> how;
  for (const auto& action : actions) {
    votes += std::log(action.scale / 100.0);
    how.push_back(action.how);
  }
  const auto scale = std::exp(votes / static_cast<double>(actions.size()));
  // A little more, so that rounding does not cost the sample that takes exactly the planned time.
  auto target = measured.within(scale * measured.best(how).slowest_seconds * (1 + 1e-9), how);
  for (std::size_t i = 0; i < assigned.size(); ++i)
    if (std::abs(static_cast<double>(target.batches[i]) - assigned[i]) > dead_band * assigned[i])
      return target;
  return measured.judge(assigned, how);
}

std::string describe(const planned_action& action, const batch_plan& target) {
  static constexpr const char* words[beliefs] = {"its measured times", "its newest window", "its times and 10 % more"};
  return "votes " + std::to_string(action.scale) + " % of the planned step, goes by " +
         words[static_cast<std::size_t>(action.how)] + "; " + std::to_string(target.total) + " in all";
}

std::vector<plan_view> view_plan(const measured_cluster& measured, const batch_plan& plan,
                                 const std::vector<std::uint32_t>& assigned) {
  std::vector<plan_view> views(measured.size());
  if (!measured.any_measured())
    return views;
  const auto now = measured.judge(assigned);
  double largest = 0;
  for (std::size_t i = 0; i < views.size(); ++i)
    if (std::abs(measured.surprise(i)) > std::abs(largest))
      largest = measured.surprise(i);
  const auto exchange = measured.exchange_seconds();
  for (std::size_t i = 0; i < views.size(); ++i)
    views[i] = {.valid = true,
                .planned_batch = static_cast<double>(plan.batches[i]),
                .planned_total = static_cast<double>(plan.total),
                .assigned_total = static_cast<double>(now.total),
                .gain = plan.goodput / now.goodput,
                .surprise = measured.surprise(i),
                .surprise_largest = largest,
                .jitter = measured.jitter(i),
                .exchange_over_step = exchange / (exchange + plan.slowest_seconds),
                .noise_trend = measured.noise_scale() > 0 && measured.newest_noise_scale() > 0
                                   ? measured.newest_noise_scale() / measured.noise_scale()
                                   : 1};
  return views;
}

} // namespace dynamix::policy
