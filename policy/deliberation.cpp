#include "policy/deliberation.hpp"

#include "cluster/places.hpp"
#include "policy/rivals.hpp"
#include "policy/state.hpp"
#include "storage/splitmix64.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace dynamix::policy {
namespace {

/// Bytes of a worker's state, probabilities and reason in a frame.
std::uint64_t detail_bytes(const cluster::arbitrator& arbitrator) {
  constexpr std::uint64_t reason_bytes = 192;
  const auto actions = std::max(arbitrator.actions.size(), arbitrator.scales.size() * beliefs);
  return sizeof(float) * (state_size() + actions) + reason_bytes;
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

deliberation::deliberation(const cluster::cluster_file& file, std::unique_ptr<policy::controller> decider)
    : file_(file), highest_(file.highest_by_rank()),
      adaptive_optimizer_(file.training.optimizer != cluster::optimizer_kind::sgd), controller_(std::move(decider)),
      learning_(controller_->learns()), measured_(file.batch, file.training.rule, cluster::base_workers(file)),
      rollout_(file.ppo.horizon) {}

void deliberation::raise_term(std::uint64_t term) {
  term_ = std::max(term_, term);
}

void deliberation::forget(std::uint32_t rank) {
  rollout_.forget(rank);
  accuracies_.forget(rank);
  assigned_.erase(rank);
  forgotten_.insert(rank);
}

void deliberation::follow(messages::guidance known) {
  if (std::pair(known.generation, known.window) > std::pair(known_.generation, known_.window))
    known_ = ruling{std::move(known), {}, {}};
}

void deliberation::enter(std::uint64_t generation, const std::vector<std::uint32_t>& members) {
  if (generation == sampled_generation_)
    return;
  sampled_generation_ = generation;
  sampled_ = sample_ranks(members, generation, std::uint64_t{1024} * file_.arbitrator.trajectory_kib,
                          detail_bytes(file_.arbitrator));
}

/// Measures a window; a new generation begins with nothing decided.
void deliberation::begin(const messages::shard_report& seen) {
  if (seen.generation != generation_) {
    generation_ = seen.generation;
    assigned_.clear();
    rollout_ = rollout_builder(file_.ppo.horizon);
  }
  std::vector<std::uint32_t> highest;
  for (const auto& report : seen.reports)
    highest.push_back(report.rank < highest_.size() ? highest_[report.rank] : file_.batch.highest);
  measured_.measure(seen, std::move(highest));
}

/// Of workers that are decided for here.
observation deliberation::observe(const messages::shard_report& seen) {
  begin(seen);
  observation own{.report = &seen, .measured = &measured_};
  for (std::size_t i = 0; i < seen.reports.size(); ++i) {
    const auto& report = seen.reports[i];
    own.assigned.push_back(assigned_.try_emplace(report.rank, report.batch).first->second);
    own.highest.push_back(measured_.highest(i));
  }
  return own;
}

verdict deliberation::consider(const messages::shard_report& all) {
  const auto seen = observe(all);
  auto steps = steps_of(all);
  const bool decided = !steps.last;
  auto settled = settle(seen, decided ? policy::decide(*controller_, seen) : choose(seen, seen.assigned, {}), decided);
  verdict result;
  result.doubted = std::move(steps.doubted);
  result.decisions = decisions_of(all, steps.due_step, settled);
  result.window = judge(all, std::move(settled), decided);
  if (!decided)
    return result;
  result.window.guard = controller_->guard_view();
  predict(measured_, result.window);
  if (learning_)
    result.rollout = rollout_.take(static_cast<std::uint32_t>(all.reports.size()));
  return result;
}

std::vector<choice> deliberation::choose_by_guidance(const observation& own) {
  if (known_.generation != generation_)
    return keep_assigned(own, "no word from the root yet");
  auto choices = controller_->propose(own, known_);
  controller_->settle(own, known_, choices);
  return choices;
}

shard_verdict deliberation::decide(const messages::shard_report& own) {
  auto seen = observe(own);
  seen.sharded = true;
  auto steps = steps_of(own);
  const bool decided = !steps.last;
  auto account = account_for(own);
  auto choices = decided ? choose_by_guidance(seen) : keep_assigned(seen, "the last window");
  shard_verdict result{.window = {.window = own.window,
                                  .generation = own.generation,
                                  .expected = own.expected,
                                  .gather_seconds = own.gather_seconds,
                                  .untrained = decided ? controller_->untrained(seen, choices) : std::string{},
                                  .reports = own.reports,
                                  .choices = {},
                                  .accounts = {std::move(account)}}};
  auto settled = settle(seen, std::move(choices), decided);
  result.doubted = std::move(steps.doubted);
  result.decisions = decisions_of(own, steps.due_step, settled);
  for (auto& one : settled) {
    const bool in_detail = sampled_generation_ == own.generation && std::ranges::binary_search(sampled_, one.made.rank);
    result.window.choices.push_back(account_of(std::move(one), in_detail));
  }
  return result;
}

/// What the decisions on a shard's reports follow from beside them.
messages::shard_account deliberation::account_for(const messages::shard_report& own) {
  messages::shard_account account{.decided = ++windows_decided_,
                                  .guided = known_.generation == generation_ ? known_.window : 0,
                                  .policy_version = controller_->version(),
                                  .ranks = {},
                                  .unguided = {},
                                  .forgotten = take_forgotten()};
  for (const auto& report : own.reports) {
    account.ranks.push_back(report.rank);
    if (!std::ranges::binary_search(known_.workers, report.rank, {}, &messages::worker_guidance::rank))
      account.unguided.push_back(report.rank);
  }
  return account;
}

std::vector<std::uint32_t> deliberation::take_forgotten() {
  const auto gone = std::exchange(forgotten_, {});
  return {gone.begin(), gone.end()};
}

root_verdict deliberation::join(const messages::shard_window& joined) {
  const messages::shard_report all{.window = joined.window,
                                   .generation = joined.generation,
                                   .reports = joined.reports,
                                   .expected = joined.expected,
                                   .gather_seconds = joined.gather_seconds};
  begin(all);
  observation seen{.report = &all, .measured = &measured_};
  std::vector<choice> proposals;
  std::vector<settled_choice> settled;
  std::uint32_t sampled = 0;
  root_verdict result;
  result.known.generation = joined.generation;
  result.known.window = joined.window;
  result.known.sums = sum_reports(joined.reports);
  ruling known{result.known, {}, {}};
  for (std::size_t i = 0; i < joined.reports.size(); ++i) {
    const auto& account = joined.choices[i];
    const auto rank = joined.reports[i].rank;
    const bool wants = account.vote >= 0 && account.proposed > 0;
    seen.assigned.push_back(account.batch);
    seen.highest.push_back(measured_.highest(i));
    proposals.push_back({.rank = rank, .batch = wants ? account.proposed : account.batch, .vote = account.vote});
    settled.push_back(settled_from(account));
    sampled += account.acted && !account.state.empty() ? 1 : 0;
    known.workers.push_back({.rank = rank});
  }
  result.window = judge(all, std::move(settled), !steps_of(all).last);
  result.window.decide_seconds = joined.decide_seconds;
  if (learning_ && sampled > 0)
    result.rollout = rollout_.take(sampled);
  controller_->survey(seen, known);
  controller_->rule(seen, proposals, joined.untrained, known);
  if (result.window.decided)
    predict(measured_, result.window);
  intervention_ = known.intervention;
  result.known = std::move(known);
  return result;
}

/// Brings the choices inside the limits; from now on they are what is assigned.
std::vector<deliberation::settled_choice> deliberation::settle(const observation& own, std::vector<choice> choices,
                                                               bool decided) {
  assert(choices.size() == own.report->reports.size());
  std::vector<settled_choice> settled;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    settled_choice one{.made = std::move(choices[i]),
                       .key = {},
                       .policy_version = controller_->version(),
                       .assigned = own.assigned[i]};
    auto& made = one.made;
    if (decided && !own.report->reports[i].final) { // who says that it ends takes no decision
      one.key = {.term = term_, .window = own.report->window};
      made.batch = std::clamp(made.batch, file_.batch.lowest, own.highest[i]);
      assigned_[own.report->reports[i].rank] = made.batch;
    }
    if (made.proposed == 0)
      made.proposed = made.batch;
    settled.push_back(std::move(one));
  }
  return settled;
}

agreed_steps deliberation::steps_of(const messages::shard_report& seen) const {
  return agree_on_steps(seen, file_.arbitrator.window_steps);
}

std::vector<messages::decision> deliberation::decisions_of(const messages::shard_report& own, std::uint64_t due_step,
                                                           const std::vector<settled_choice>& settled) const {
  std::vector<messages::decision> decisions;
  for (std::size_t i = 0; i < settled.size(); ++i)
    if (settled[i].key.window > 0)
      decisions.push_back({.key = settled[i].key,
                           .generation = own.generation,
                           .rank = own.reports[i].rank,
                           .batch = settled[i].made.batch,
                           .first_step = due_step});
  return decisions;
}

judged_window deliberation::judge(const messages::shard_report& all, std::vector<settled_choice> settled,
                                  bool decided) {
  judged_window window{.key = {.term = term_, .window = all.window},
                       .generation = all.generation,
                       .policy_version = controller_->version(),
                       .decided = decided,
                       .gather_seconds = all.gather_seconds,
                       .workers = {},
                       .predicted = {},
                       .guard = {},
                       .forgotten = take_forgotten()};
  const auto times = attribute(all);
  for (std::size_t i = 0; i < all.reports.size(); ++i) {
    window.workers.push_back(judge(all.reports[i], all.window, std::move(settled[i])));
    window.workers.back().time = times[i];
  }
  return window;
}

judged_worker deliberation::judge(const messages::window_report& report, std::uint64_t window, settled_choice settled) {
  auto& made = settled.made;
  judged_worker row{.report = report, .stale = report.window != window};
  row.reward = compute_reward(report, accuracies_.previous(report), measured_.progress(), file_.reward,
                              file_.reward_in_force(), adaptive_optimizer_);
  if (learning_ && !row.stale)
    rollout_.rewarded(report.rank, report.decision, row.reward.total);
  if (learning_ && settled.key.window == window)
    rollout_.decided(settled.key, made, settled.policy_version);
  row.state = std::move(made.state);
  row.probabilities = std::move(made.probabilities);
  row.action = made.action;
  row.log_probability = made.log_probability;
  row.value = made.value;
  row.assigned_batch = settled.assigned;
  row.decided_batch = made.batch;
  row.proposed_batch = made.proposed;
  row.intervention = std::move(made.intervention);
  row.reason = std::move(made.reason);
  return row;
}

/// Of what a shard chose, for its parent.
messages::worker_choice deliberation::account_of(settled_choice settled, bool in_detail) const {
  auto& made = settled.made;
  messages::worker_choice account{.rank = made.rank,
                                  .key = settled.key,
                                  .policy_version = settled.policy_version,
                                  .assigned = settled.assigned,
                                  .batch = made.batch,
                                  .proposed = made.proposed,
                                  .vote = made.vote,
                                  .acted = made.action >= 0,
                                  .log_probability = made.log_probability,
                                  .value = made.value,
                                  .state = {},
                                  .probabilities = {},
                                  .reason = {}};
  if (in_detail) {
    account.state = std::move(made.state);
    account.probabilities = std::move(made.probabilities);
    account.reason = std::move(made.reason);
  }
  return account;
}

deliberation::settled_choice deliberation::settled_from(const messages::worker_choice& account) const {
  const bool stepped_in = account.vote >= 0 && !account.acted;
  return {.made = {.rank = account.rank,
                   .batch = account.batch,
                   .proposed = account.proposed,
                   .intervention = stepped_in ? intervention_ : std::string{},
                   .action = account.acted ? account.vote : -1,
                   .vote = account.vote,
                   .state = account.state,
                   .probabilities = account.probabilities,
                   .log_probability = account.log_probability,
                   .value = account.value,
                   .reason = account.reason},
          .key = account.key,
          .policy_version = account.policy_version,
          .assigned = account.assigned};
}

} // namespace dynamix::policy
