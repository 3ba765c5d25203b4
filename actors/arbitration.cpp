#include "actors/arbitration.hpp"

#include <algorithm>
#include <cassert>

namespace dynamix::actors {

arbitration::arbitration(const cluster::cluster_file& file, std::unique_ptr<policy::controller> controller,
                         std::uint64_t term)
    : file_(file), adaptive_optimizer_(file.training.optimizer != cluster::optimizer_kind::sgd),
      controller_(std::move(controller)), learning_(controller_->learns()), term_(term), rollout_(file.ppo.horizon) {}

void arbitration::raise_term(std::uint64_t term) {
  term_ = std::max(term_, term);
}

std::string arbitration::adopt(const messages::policy_version& version) {
  return controller_->adopt(version);
}

void arbitration::forget(std::uint32_t rank) {
  rollout_.forget(rank);
  accuracies_.forget(rank);
  assigned_.erase(rank);
}

ledger_worker arbitration::judge(const messages::window_report& report, bool stale) {
  ledger_worker row{.report = report, .stale = stale};
  row.reward = policy::compute_reward(report, accuracies_.previous(report), file_.reward, adaptive_optimizer_);
  row.assigned_batch = assigned_.try_emplace(report.rank, report.batch).first->second;
  if (learning_ && !stale)
    rollout_.rewarded(report.rank, report.decision, row.reward.total);
  return row;
}

verdict arbitration::consider(const messages::shard_report& shard) {
  verdict result;
  auto& window = result.window;
  window.key = {.term = term_, .window = shard.window};
  window.generation = shard.generation;
  window.policy_version = controller_->version();
  window.gather_seconds = shard.gather_seconds;
  window.decided = std::ranges::none_of(shard.reports, &messages::window_report::final);
  for (const auto& report : shard.reports)
    window.workers.push_back(judge(report, report.window != shard.window));
  if (!window.decided) {
    for (auto& row : window.workers)
      row.decided_batch = row.assigned_batch;
    return result;
  }

  policy::observation observed{.report = &shard, .assigned = {}};
  for (const auto& row : window.workers)
    observed.assigned.push_back(row.assigned_batch);
  const auto choices = controller_->decide(observed);
  // The window after this one is running already, so the boundary behind it is the first that a decision can hold for.
  // Boundaries count from step 0, which the first window after a resume need not begin at.
  std::uint64_t first_step = 0;
  for (const auto& report : shard.reports)
    first_step = std::max(first_step, report.first_step);
  const std::uint64_t window_steps = file_.arbitrator.window_steps;
  first_step = (first_step / window_steps + 2) * window_steps;
  assert(choices.size() == shard.reports.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto& choice = choices[i];
    const auto& report = shard.reports[i];
    auto& row = window.workers[i];
    row.state = choice.state;
    row.probabilities = choice.probabilities;
    row.action = choice.action;
    row.log_probability = choice.log_probability;
    row.value = choice.value;
    row.reason = choice.reason;
    row.decided_batch = std::clamp(choice.batch, file_.batch.lowest, file_.batch.highest);
    assigned_[report.rank] = row.decided_batch;
    if (learning_)
      rollout_.decided(window.key, choice, window.policy_version);
    result.decisions.push_back({.key = window.key,
                                .generation = shard.generation,
                                .rank = report.rank,
                                .batch = row.decided_batch,
                                .first_step = first_step});
  }
  if (learning_)
    result.rollout = rollout_.take(static_cast<std::uint32_t>(shard.reports.size()));
  return result;
}

} // namespace dynamix::actors
