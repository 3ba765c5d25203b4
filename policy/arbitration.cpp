#include "policy/arbitration.hpp"

#include "cluster/decision_steps.hpp"

#include <algorithm>
#include <cassert>

namespace dynamix::policy {

arbitration::arbitration(const cluster::cluster_file& file, std::unique_ptr<policy::controller> decider,
                         std::uint64_t term)
    : file_(file), highest_(file.highest_by_rank()),
      adaptive_optimizer_(file.training.optimizer != cluster::optimizer_kind::sgd), controller_(std::move(decider)),
      learning_(controller_->learns()), term_(term), measured_(file.batch), rollout_(file.ppo.horizon) {}

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

void arbitration::enter_generation(std::uint64_t generation) {
  if (generation == generation_)
    return;
  generation_ = generation;
  assigned_.clear();
  rollout_ = rollout_builder(file_.ppo.horizon);
}

judged_worker arbitration::judge(const messages::window_report& report, bool stale, double progress) {
  judged_worker row{.report = report, .stale = stale};
  row.reward = compute_reward(report, accuracies_.previous(report), progress, file_.reward, file_.reward_in_force(),
                              adaptive_optimizer_);
  row.assigned_batch = assigned_.try_emplace(report.rank, report.batch).first->second;
  if (learning_ && !stale)
    rollout_.rewarded(report.rank, report.decision, row.reward.total);
  return row;
}

verdict arbitration::consider(const messages::shard_report& shard) {
  enter_generation(shard.generation);
  std::vector<std::uint32_t> highest;
  for (const auto& report : shard.reports)
    highest.push_back(report.rank < highest_.size() ? highest_[report.rank] : file_.batch.highest);
  measured_.measure(shard, std::move(highest));
  verdict result;
  auto& window = result.window;
  window.key = {.term = term_, .window = shard.window};
  window.generation = shard.generation;
  window.policy_version = controller_->version();
  window.gather_seconds = shard.gather_seconds;
  window.decided = std::ranges::none_of(shard.reports, &messages::window_report::final);
  const auto times = attribute(shard);
  for (std::size_t i = 0; i < shard.reports.size(); ++i) {
    const auto& report = shard.reports[i];
    window.workers.push_back(judge(report, report.window != shard.window, measured_.progress()));
    window.workers.back().time = times[i];
  }
  if (window.decided)
    decide(shard, result);
  else
    for (auto& row : window.workers)
      row.decided_batch = row.proposed_batch = row.assigned_batch;
  return result;
}

void arbitration::decide(const messages::shard_report& shard, verdict& result) {
  auto& window = result.window;
  observation observed{.report = &shard, .measured = &measured_};
  for (std::size_t i = 0; i < shard.reports.size(); ++i) {
    observed.assigned.push_back(window.workers[i].assigned_batch);
    observed.highest.push_back(measured_.highest(i));
  }
  const auto choices = controller_->decide(observed);
  std::uint64_t first_step = 0;
  for (const auto& report : shard.reports)
    first_step = std::max(first_step, report.first_step);
  first_step = cluster::decision_step(first_step, file_.arbitrator.window_steps);
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
    row.intervention = choice.intervention;
    row.decided_batch = std::clamp(choice.batch, file_.batch.lowest, observed.highest[i]);
    row.proposed_batch = choice.proposed == 0 ? row.decided_batch : choice.proposed;
    assigned_[report.rank] = row.decided_batch;
    if (learning_)
      rollout_.decided(window.key, choice, window.policy_version);
    result.decisions.push_back({.key = window.key,
                                .generation = shard.generation,
                                .rank = report.rank,
                                .batch = row.decided_batch,
                                .first_step = first_step});
  }
  window.guard = controller_->guard_view();
  predict(measured_, window);
  if (learning_)
    result.rollout = rollout_.take(static_cast<std::uint32_t>(shard.reports.size()));
}

void predict(const measured_cluster& measured, judged_window& window) {
  if (!measured.any_measured())
    return;
  const auto promise = [](const batch_plan& plan) {
    return promised_step{.total = plan.total, .slowest_seconds = plan.slowest_seconds, .goodput = plan.goodput};
  };
  const auto* plan = measured.best_if_found();
  std::vector<std::uint32_t> assigned;
  std::vector<std::uint32_t> decided;
  for (std::size_t i = 0; i < window.workers.size(); ++i) {
    auto& row = window.workers[i];
    assigned.push_back(row.assigned_batch);
    decided.push_back(row.decided_batch);
    if (measured.measured(i))
      row.predicted_seconds = measured.seconds(i, row.decided_batch);
    if (plan != nullptr)
      row.planned_batch = plan->batches[i];
  }
  window.predicted = {.exchange_seconds = measured.exchange_seconds(),
                      .noise_scale = measured.noise_scale(),
                      .assigned = promise(measured.judge(std::move(assigned))),
                      .decided = promise(measured.judge(std::move(decided)))};
  if (plan != nullptr)
    window.predicted.planned = promise(*plan);
}

} // namespace dynamix::policy
