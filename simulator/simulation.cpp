#include "simulator/simulation.hpp"

#include "cluster/places.hpp"
#include "messages/early_steps.hpp"
#include "policy/water_filling.hpp"
#include "session/step_settings.hpp"
#include "simulator/random_stream.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace dynamix::simulator {
namespace {

using batches = std::vector<std::uint32_t>;

constexpr std::uint64_t evaluation_purpose = 0x6576616c; // tells these random numbers from a world's

/// Most samples per step of those present, by rank.
batches limits_of(const cluster::cluster_file& file, std::span<const std::size_t> present) {
  const auto limits = file.highest_by_rank();
  batches own;
  for (const auto position : present)
    own.push_back(limits[position]);
  return own;
}

/// The batch sizes of a new generation, by rank, as client/batch_shares has them: stayers whose batch sizes differ by a
/// sample at most count the same. `before` is by position among the file's workers, 0: was not there.
batches split_again(const batches& before, std::span<const std::size_t> present, const cluster::cluster_file& file) {
  const auto total = std::accumulate(before.begin(), before.end(), std::uint64_t{0});
  double known = 0;
  double workers = 0;
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t most = 0;
  for (const auto position : present) {
    if (before[position] == 0)
      continue;
    known += before[position];
    ++workers;
    least = std::min(least, before[position]);
    most = std::max(most, before[position]);
  }
  const bool even = workers == 0 || most - least <= 1;
  const auto limits = file.highest_by_rank();
  std::vector<double> weights;
  batches highest;
  for (const auto position : present) {
    weights.push_back(even ? 1 : before[position] > 0 ? before[position] : known / workers);
    highest.push_back(limits[position]);
  }
  return policy::split_in_proportion(total, weights, file.batch.lowest, highest);
}

} // namespace

struct simulation::state {
  struct pending_decision {
    std::uint64_t first_step;
    messages::decision_key key;
    batches split;
  };

  simulator::world world;
  std::uint64_t generation;
  oracle* knowing; ///< null with any other policy
  policy::deliberation deliberation;
  random_stream evaluation_numbers;
  step_planner planner;
  std::optional<balanced_group> balanced; ///< where workers share by their paces
  double noise_scale = -1;                ///< of the newest window
  batches in_force;
  messages::decision_key key;
  std::deque<pending_decision> pending;
  bool over = false;
  policy::judged_window window;
  std::vector<messages::trajectory> rollout;
  std::vector<messages::evaluation_report> evaluations;
  run_result counted; ///< what the world does not know

  /// `knows`: the decider itself, where it is an oracle.
  state(scenario what, std::unique_ptr<policy::controller> decider, oracle* knows, std::uint64_t seed)
      : world(std::move(what), seed), generation(world.generation()), knowing(knows),
        deliberation(world.what().file, std::move(decider)), evaluation_numbers(seed, 0, evaluation_purpose),
        in_force(world.present().size(), file().first_batch()), over(!world.failure().empty()) {
    begin_generation();
    if (knowing != nullptr && !over)
      in_force = best_batches(world.look(), file().batch);
  }

  const cluster::cluster_file& file() const { return world.what().file; }
  std::uint64_t least_total() const {
    return cluster::goes_below_initial(file().training.rule)
               ? 0
               : std::uint64_t{file().batch.initial} * cluster::base_workers(file());
  }
  /// What the workers know of each other is a generation's.
  void begin_generation() {
    if (const auto how = session::balancing_of(file()); how != messages::balancing::off && knowing == nullptr)
      balanced.emplace(how, file().batch.lowest, limits_of(file(), world.present()), least_total());
  }
  messages::shard_report run_window();
  messages::shard_report run_balanced();
  bool apply_decision(std::uint64_t before_step);
  void decide(messages::shard_report& shard);
  void enter_generation(const std::vector<std::size_t>& before);
  void evaluate(std::uint64_t samples_before, const messages::window_report& report);
};

/// Puts a decision in force that is due before `before_step`; false where there is none.
bool simulation::state::apply_decision(std::uint64_t before_step) {
  if (pending.empty() || pending.front().first_step >= before_step)
    return false;
  key = pending.front().key;
  in_force = std::move(pending.front().split);
  pending.pop_front();
  return true;
}

messages::shard_report simulation::state::run_balanced() {
  bool ran = false;
  const auto step = [&] {
    if (!std::exchange(ran, false))
      return;
    batches decided;
    const auto before = in_force;
    while (file().arbitrator.policy != cluster::policy_kind::stigmergic && apply_decision(world.steps() + 1))
      decided = std::exchange(in_force, before);
    const auto noise_known = world.steps() >= messages::early_steps ? noise_scale : 0;
    in_force = balanced->step(in_force, world.computed_seconds(), world.newest_step_seconds(), noise_known, decided);
  };
  auto shard = world.run_window(
      [&] {
        step();
        ran = true;
        return in_force;
      },
      key);
  if (world.generation() == generation)
    step();
  balanced->report(shard.reports);
  if (!shard.reports.empty()) {
    const auto& training = shard.reports.front().training;
    noise_scale = training.gradient_valid ? training.noise_scale : -1;
  }
  return shard;
}

messages::shard_report simulation::state::run_window() {
  if (knowing != nullptr && knowing->every_step) {
    pending.clear();
    return world.run_window([this] { return in_force = planner(world.look_at_step(), file().batch); }, key);
  }
  if (balanced)
    return run_balanced();
  batches settling;
  const auto end = world.steps() + file().arbitrator.window_steps;
  for (bool applied = true; applied;) {
    const bool in_midst = !pending.empty() && pending.front().first_step > world.steps();
    auto before = in_force;
    applied = apply_decision(end);
    if (applied && in_midst)
      settling = std::move(before);
  }
  return world.run_window(in_force, key, settling);
}

void simulation::state::decide(messages::shard_report& shard) {
  for (auto& report : shard.reports)
    report.final = over;
  if (knowing != nullptr)
    knowing->next = over || world.generation() != generation ? batches{} : best_batches(world.look(), file().batch);
  auto verdict = deliberation.consider(shard);
  window = std::move(verdict.window);
  rollout = std::move(verdict.rollout);
  if (std::ranges::any_of(window.workers, [](const auto& worker) { return !worker.intervention.empty(); }))
    ++counted.interventions;
  if (verdict.decisions.empty())
    return;
  pending_decision decided{.first_step = knowing != nullptr ? 0 : verdict.decisions.front().first_step,
                           .key = verdict.decisions.front().key};
  for (const auto& decision : verdict.decisions)
    decided.split.push_back(decision.batch);
  counted.decisions += verdict.decisions.size();
  counted.changes += static_cast<std::uint64_t>(std::ranges::count_if(
      window.workers, [](const auto& worker) { return worker.decided_batch != worker.assigned_batch; }));
  pending.push_back(std::move(decided));
}

void simulation::state::enter_generation(const std::vector<std::size_t>& before) {
  generation = world.generation();
  batches by_position(world.what().profiles.size());
  for (std::size_t rank = 0; rank < before.size(); ++rank)
    by_position[before[rank]] = in_force[rank];
  in_force =
      knowing != nullptr ? best_batches(world.look(), file().batch) : split_again(by_position, world.present(), file());
  key = {};
  pending.clear();
  begin_generation();
}

void simulation::state::evaluate(std::uint64_t samples_before, const messages::window_report& report) {
  const auto& workload = world.what().workload;
  const double interval = file().training.evaluate_every_epochs * workload.epoch_samples;
  if (!over && std::floor(static_cast<double>(world.samples()) / interval) ==
                   std::floor(static_cast<double>(samples_before) / interval))
    return;
  const auto evaluated = world.evaluate(evaluation_numbers);
  over = over || world.seconds_to_target() >= 0;
  evaluations.push_back({.step = world.steps(),
                         .epoch = static_cast<std::uint64_t>(world.epochs()),
                         .samples = world.samples(),
                         .elapsed_seconds = report.elapsed_seconds + evaluated.seconds,
                         .train_loss = report.training.loss,
                         .test_loss = workload.loss(evaluated.accuracy),
                         .test_accuracy = evaluated.accuracy,
                         .global_batch = report.global_batch,
                         .learning_rate = report.training.learning_rate});
}

simulation::simulation(scenario what, const std::vector<std::uint8_t>& parameters, std::uint64_t seed) {
  const auto policy = what.file.arbitrator.policy;
  if (cluster::knows_truth(policy)) {
    auto decider = std::make_unique<oracle>(policy == cluster::policy_kind::step_oracle);
    auto* knows = decider.get();
    state_ = std::make_unique<state>(std::move(what), std::move(decider), knows, seed);
  } else {
    auto decider = policy::make_controller(what.file, parameters);
    state_ = std::make_unique<state>(std::move(what), std::move(decider), nullptr, seed);
  }
}

simulation::simulation(scenario what, std::unique_ptr<policy::controller> decider, std::uint64_t seed)
    : state_(std::make_unique<state>(std::move(what), std::move(decider), nullptr, seed)) {}

simulation::simulation(simulation&&) noexcept = default;
simulation::~simulation() = default;

bool simulation::advance() {
  auto& now = *state_;
  if (now.over)
    return false;
  const auto present = now.world.present();
  const auto samples_before = now.world.samples();
  auto shard = now.run_window();
  now.over = !now.world.failure().empty() || now.world.seconds_to_target() >= 0 ||
             now.world.epochs() >= now.file().training.epochs;
  if (shard.reports.empty()) // out of memory
    return false;
  ++now.counted.windows;
  now.evaluate(samples_before, shard.reports.front());
  now.decide(shard);
  if (!now.over && now.world.generation() != now.generation)
    now.enter_generation(present);
  return true;
}

bool simulation::done() const {
  return state_->over;
}

const policy::judged_window& simulation::window() const {
  return state_->window;
}

std::vector<messages::trajectory> simulation::take_rollout() {
  return std::exchange(state_->rollout, {});
}

std::string simulation::adopt(const messages::policy_version& version) {
  return state_->deliberation.adopt(version);
}

const simulator::world& simulation::world() const {
  return state_->world;
}

const std::vector<messages::evaluation_report>& simulation::evaluations() const {
  return state_->evaluations;
}

run_result simulation::result() const {
  const auto& world = state_->world;
  auto result = state_->counted;
  result.failure = world.failure();
  result.seconds = world.now_seconds();
  result.seconds_to_target = world.seconds_to_target();
  result.final_accuracy = world.what().workload.evaluation_samples > 0 && !state_->evaluations.empty()
                              ? state_->evaluations.back().test_accuracy
                              : world.accuracy();
  result.progress = world.progress();
  result.samples = world.samples();
  result.steps = world.steps();
  return result;
}

} // namespace dynamix::simulator
