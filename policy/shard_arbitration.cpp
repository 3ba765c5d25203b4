#include "policy/shard_arbitration.hpp"

#include "cluster/decision_steps.hpp"
#include "policy/rivals.hpp"
#include "policy/state.hpp"
#include "storage/splitmix64.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::policy {
namespace {

std::vector<std::uint32_t> highest_of(const std::vector<messages::window_report>& reports,
                                      const std::vector<std::uint32_t>& by_rank, std::uint32_t otherwise) {
  std::vector<std::uint32_t> highest;
  for (const auto& report : reports)
    highest.push_back(report.rank < by_rank.size() ? by_rank[report.rank] : otherwise);
  return highest;
}

bool decidable(const std::vector<messages::window_report>& reports) {
  return std::ranges::none_of(reports, &messages::window_report::final);
}

} // namespace

std::vector<std::uint32_t> sample_ranks(const std::vector<std::uint32_t>& members, std::uint64_t generation,
                                        std::uint64_t budget_bytes, std::uint64_t worker_bytes) {
  const auto most = std::min<std::uint64_t>(budget_bytes / worker_bytes, members.size());
  std::vector<std::pair<std::uint64_t, std::uint32_t>> drawn;
  for (const auto rank : members)
    drawn.emplace_back(storage::splitmix64::finalise(generation * messages::max_workers + rank + 1), rank);
  std::ranges::sort(drawn);
  std::vector<std::uint32_t> sampled;
  for (std::size_t i = 0; i < most; ++i)
    sampled.push_back(drawn[i].second);
  std::ranges::sort(sampled);
  return sampled;
}

std::uint64_t detail_bytes(std::size_t state_size, std::size_t actions) {
  constexpr std::uint64_t reason_bytes = 192;
  return sizeof(float) * (state_size + actions) + reason_bytes;
}

shard_arbitration::shard_arbitration(const cluster::cluster_file& file, std::unique_ptr<policy::controller> decider)
    : file_(file), highest_(file.highest_by_rank()), controller_(std::move(decider)), measured_(file.batch) {}

void shard_arbitration::take(messages::guidance known) {
  if (std::pair(known.generation, known.window) > std::pair(known_.generation, known_.window))
    known_ = std::move(known);
}

void shard_arbitration::enter(std::uint64_t generation, const std::vector<std::uint32_t>& members) {
  if (generation == sampled_generation_)
    return;
  sampled_generation_ = generation;
  const auto actions = std::max(file_.arbitrator.actions.size(), file_.arbitrator.scales.size() * beliefs);
  sampled_ = sample_ranks(members, generation, std::uint64_t{1024} * file_.arbitrator.trajectory_kib,
                          detail_bytes(state_size(), actions));
}

void shard_arbitration::enter_generation(std::uint64_t generation) {
  if (generation != generation_)
    assigned_.clear();
  generation_ = generation;
}

std::vector<choice> shard_arbitration::decide(const observation& own) {
  if (known_.generation != generation_)
    return keep_assigned(own, "no word from the root yet");
  auto choices = controller_->propose(own, known_);
  controller_->settle(own, known_, choices);
  return choices;
}

shard_verdict shard_arbitration::consider(const messages::shard_report& shard) {
  enter_generation(shard.generation);
  measured_.measure(shard, highest_of(shard.reports, highest_, file_.batch.highest));
  observation own{.report = &shard, .measured = &measured_, .sharded = true};
  std::uint64_t first_step = 0;
  for (std::size_t i = 0; i < shard.reports.size(); ++i) {
    const auto& report = shard.reports[i];
    own.assigned.push_back(assigned_.try_emplace(report.rank, report.batch).first->second);
    own.highest.push_back(measured_.highest(i));
    first_step = std::max(first_step, report.first_step);
  }
  first_step = cluster::decision_step(first_step, file_.arbitrator.window_steps);
  shard_verdict result{.window = {.window = shard.window,
                                  .generation = shard.generation,
                                  .expected = shard.expected,
                                  .gather_seconds = shard.gather_seconds,
                                  .untrained = {},
                                  .reports = shard.reports,
                                  .choices = {}}};
  const bool decided = decidable(shard.reports);
  const auto choices = decided ? decide(own) : keep_assigned(own, "the last window");
  if (decided)
    result.window.untrained = controller_->untrained(own, choices);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto& made = choices[i];
    const auto batch = std::clamp(made.batch, file_.batch.lowest, own.highest[i]);
    messages::worker_choice account{.rank = shard.reports[i].rank,
                                    .key = {},
                                    .policy_version = controller_->version(),
                                    .assigned = own.assigned[i],
                                    .batch = decided ? batch : own.assigned[i],
                                    .proposed = made.proposed == 0 ? batch : made.proposed,
                                    .vote = made.vote,
                                    .acted = made.action >= 0,
                                    .log_probability = made.log_probability,
                                    .value = made.value,
                                    .state = {},
                                    .probabilities = {},
                                    .reason = {}};
    if (decided) {
      account.key = {.term = term_, .window = shard.window};
      assigned_[account.rank] = batch;
      result.decisions.push_back({.key = account.key,
                                  .generation = shard.generation,
                                  .rank = account.rank,
                                  .batch = batch,
                                  .first_step = first_step});
    }
    if (sampled_generation_ == shard.generation && std::ranges::binary_search(sampled_, account.rank)) {
      account.state = made.state;
      account.probabilities = made.probabilities;
      account.reason = made.reason;
    }
    result.window.choices.push_back(std::move(account));
  }
  return result;
}

root_arbitration::root_arbitration(const cluster::cluster_file& file, std::unique_ptr<policy::controller> decider)
    : file_(file), highest_(file.highest_by_rank()),
      adaptive_optimizer_(file.training.optimizer != cluster::optimizer_kind::sgd), controller_(std::move(decider)),
      learning_(controller_->learns()), measured_(file.batch), rollout_(file.ppo.horizon) {}

void root_arbitration::forget(std::uint32_t rank) {
  rollout_.forget(rank);
  accuracies_.forget(rank);
}

judged_worker root_arbitration::judge(const messages::shard_window& joined, std::size_t index) {
  const auto& report = joined.reports[index];
  const auto& made = joined.choices[index];
  judged_worker row{.report = report, .stale = report.window != joined.window};
  row.reward = compute_reward(report, accuracies_.previous(report), measured_.progress(), file_.reward,
                              file_.reward_in_force(), adaptive_optimizer_);
  row.state = made.state;
  row.probabilities = made.probabilities;
  row.action = made.acted ? made.vote : -1;
  row.log_probability = made.log_probability;
  row.value = made.value;
  row.assigned_batch = made.assigned;
  row.decided_batch = made.batch;
  row.proposed_batch = made.proposed;
  row.reason = made.reason;
  if (made.vote >= 0 && !made.acted)
    row.intervention = ruled_intervention_;
  if (learning_ && !row.stale)
    rollout_.rewarded(report.rank, report.decision, row.reward.total);
  if (learning_ && made.acted && made.key.window == joined.window)
    rollout_.decided(made.key,
                     {.rank = made.rank,
                      .action = made.vote,
                      .state = made.state,
                      .log_probability = made.log_probability,
                      .value = made.value},
                     made.policy_version);
  return row;
}

root_verdict root_arbitration::consider(const messages::shard_window& joined) {
  if (joined.generation != generation_)
    rollout_ = rollout_builder(file_.ppo.horizon);
  generation_ = joined.generation;
  const messages::shard_report all{.window = joined.window,
                                   .generation = joined.generation,
                                   .reports = joined.reports,
                                   .expected = joined.expected,
                                   .gather_seconds = joined.gather_seconds};
  measured_.measure(all, highest_of(joined.reports, highest_, file_.batch.highest));
  root_verdict result;
  result.window.key = {.term = term_, .window = joined.window};
  result.window.generation = joined.generation;
  result.window.policy_version = controller_->version();
  result.window.decided = decidable(joined.reports);
  result.window.gather_seconds = joined.gather_seconds;
  result.window.decide_seconds = joined.decide_seconds;
  observation observed{.report = &all, .measured = &measured_};
  std::vector<proposal> proposals;
  std::uint32_t sampled = 0;
  const auto times = attribute(all);
  for (std::size_t i = 0; i < joined.reports.size(); ++i) {
    result.window.workers.push_back(judge(joined, i));
    result.window.workers.back().time = times[i];
    const auto& made = joined.choices[i];
    observed.assigned.push_back(made.batch);
    observed.highest.push_back(measured_.highest(i));
    proposals.push_back({.vote = made.vote, .batch = made.vote >= 0 ? made.proposed : 0});
    sampled += made.acted && !made.state.empty() ? 1 : 0;
  }
  if (learning_ && sampled > 0)
    result.rollout = rollout_.take(sampled);
  auto& known = result.known;
  known.generation = joined.generation;
  known.window = joined.window;
  known.sums = sum_reports(joined.reports);
  for (const auto& report : joined.reports)
    known.workers.push_back({.rank = report.rank});
  controller_->survey(observed, known);
  controller_->rule(observed, proposals, joined.untrained, known);
  if (result.window.decided)
    predict(measured_, result.window);
  ruled_intervention_ = known.intervention;
  return result;
}

} // namespace dynamix::policy
