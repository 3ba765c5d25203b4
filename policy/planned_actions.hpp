#pragma once

/// What an action of `ppo` means, and what the actions of all workers come to. Pure, without Torch.

#include "policy/measured_cluster.hpp"
#include "policy/state.hpp"

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace dynamix::policy {

struct planned_action {
  std::int32_t scale = 100; ///< vote for the time that a step computes, percent of the plan's
  belief how = belief::average;
};
/// Action `index` of scales.size() * beliefs: beliefs of one scale stand together.
planned_action to_planned_action(std::size_t index, std::span<const std::int32_t> scales);

/// Draws an action: its scale with the next number of `common` (so the same for all workers that share it, if their
/// probabilities are), then its belief with the next of `own`.
std::size_t draw_planned_action(std::span<const float> probabilities, std::mt19937_64 common, std::mt19937_64& own);

/// The batch sizes that these actions, one a worker, come to. The plan with the highest goodput under their beliefs.
/// Where the geometric mean of the votes is another than 100 %, its global batch times what all compute within so much
/// of its step time over what they compute within all of it; so a host that waits for a slower one is not given more
/// for that alone. All as far as it is worth a change; where it `tries_votes`, others than 100 % run whatever they
/// are predicted to gain, or a policy that has yet to learn could learn nothing of them.
struct planned_target {
  batch_plan plan;
  double seconds = 0; ///< of computing a step; 0: what is assigned stays
  std::string reason; ///< why it is worth a change, or not
};
planned_target find_planned_target(const measured_cluster& measured, std::span<const planned_action> actions,
                                   const std::vector<std::uint32_t>& assigned, bool tries_votes);

/// "votes 118 % of the planned step, goes by its newest window; 560 in all"
std::string describe(const planned_action& action, std::uint64_t total);

/// What the state shows of measurements and plan that is the same for all workers, and each one's planned batch size.
/// Nothing while nothing is measured.
void survey_plan(const measured_cluster& measured, const batch_plan& plan, const std::vector<std::uint32_t>& assigned,
                 const messages::shard_report& all, messages::guidance& result);
/// What the state of one worker shows of them: masked without a plan.
plan_view view_plan(const measured_cluster& measured, std::size_t worker, const messages::guidance& known,
                    std::uint32_t planned_batch);

} // namespace dynamix::policy
