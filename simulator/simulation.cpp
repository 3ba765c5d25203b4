#include "simulator/simulation.hpp"

#include "policy/reflex.hpp"
#include "policy/water_filling.hpp"
#include "simulator/random_stream.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>

namespace dynamix::simulator {
namespace {

using batches = std::vector<std::uint32_t>;

constexpr std::uint64_t evaluation_purpose = 0x6576616c; // tells these random numbers from a world's

/// Says what it has been told; the truth is not in its observations.
class oracle : public policy::joint_controller {
public:
  explicit oracle(bool every_step) : every_step(every_step) {}
  std::string name() const override { return every_step ? "step-oracle" : "oracle"; }
  std::vector<policy::choice> choose_all(const policy::observation& observed) override {
    std::vector<policy::choice> choices;
    for (std::size_t i = 0; i < observed.report->reports.size(); ++i)
      choices.push_back({.rank = observed.report->reports[i].rank,
                         .batch = next.empty() ? observed.assigned[i] : next[i],
                         .reason = "highest true goodput"});
    return choices;
  }

  const bool every_step; ///< otherwise once a window
  batches next;          ///< by rank; empty: what is assigned
};

/// The best batch sizes of every step. They change with hosts and links; the noise scale, which moves slowly, is
/// followed by the hundredth.
class step_planner {
public:
  batches operator()(const truth& now, const cluster::batch& limits) {
    if (best_.empty() || now.profiles != before_.profiles || now.slowdown != before_.slowdown ||
        now.exchange_seconds != before_.exchange_seconds || std::abs(now.phi - before_.phi) > 0.01 * before_.phi) {
      best_ = best_batches(now, limits);
      before_ = now;
    }
    return best_;
  }

private:
  truth before_;
  batches best_;
};

/// What the workers do by themselves between decisions: each follows its own pace from step to step, all see all marks,
/// and so come to the same batch sizes.
class reflexes {
public:
  explicit reflexes(const scenario& what)
      : trackers_(what.profiles.size()), file_(what.file), limits_(what.file.highest_by_rank()) {}

  /// A step has run with these batch sizes, by rank, and nobody computed for the shortest time that any was blocked.
  void measure(std::span<const std::size_t> present, std::span<const double> computed, double step_seconds,
               const batches& in_force) {
    double longest = 0;
    for (std::size_t rank = 0; rank < present.size(); ++rank) {
      trackers_[present[rank]].measure(in_force[rank], computed[rank]);
      longest = std::max(longest, computed[rank]);
    }
    const double exchange = std::max(0.0, step_seconds - longest);
    exchange_seconds_ = exchange_seconds_ < 0 ? exchange : exchange_seconds_ + 0.2 * (exchange - exchange_seconds_);
    largest_total_ = std::max(largest_total_, std::accumulate(in_force.begin(), in_force.end(), std::uint64_t{0}));
  }
  /// A window has closed.
  void measure(const messages::window_report& report) {
    if (!report.training.gradient_valid)
      return;
    const double newest = report.training.noise_scale;
    noise_scale_ = noise_scale_ < 0 ? newest : noise_scale_ + 0.1 * (newest - noise_scale_);
  }
  batches react(std::span<const std::size_t> present, const batches& in_force) {
    policy::reflex_field field{.in_force = in_force,
                               .lowest = file_.batch.lowest,
                               .initial_total = std::uint64_t{file_.batch.initial} * present.size(),
                               .noise_scale = noise_scale_,
                               .exchange_seconds = std::max(0.0, exchange_seconds_)};
    double slowest = 0;
    for (std::size_t rank = 0; rank < present.size(); ++rank) {
      const auto& tracker = trackers_[present[rank]];
      field.highest.push_back(limits_[present[rank]]);
      if (tracker.measured())
        slowest = std::max(slowest, tracker.seconds(in_force[rank]));
    }
    field.highest_total = 2 * std::max(largest_total_, field.initial_total);
    if (target_seconds_ <= 0)
      target_seconds_ = slowest;
    for (std::size_t rank = 0; rank < present.size(); ++rank)
      field.marks.push_back(trackers_[present[rank]].mark(target_seconds_, field.lowest, field.highest[rank]));
    field.target_seconds = target_seconds_;
    auto next = policy::react(field);
    target_seconds_ = next.seconds;
    return std::move(next.batches);
  }

private:
  std::vector<policy::pace_tracker> trackers_; ///< by position
  const cluster::cluster_file& file_;
  batches limits_; ///< by position
  double exchange_seconds_ = -1;
  double noise_scale_ = -1;
  double target_seconds_ = 0;
  std::uint64_t largest_total_ = 0;
};

/// The batch sizes of a new generation, by rank. `before` is by position among the file's workers, 0: was not there.
batches split_again(const batches& before, std::span<const std::size_t> present, const cluster::cluster_file& file) {
  const auto total = std::accumulate(before.begin(), before.end(), std::uint64_t{0});
  double known = 0;
  double workers = 0;
  for (const auto position : present) {
    known += before[position];
    workers += before[position] > 0 ? 1 : 0;
  }
  const auto limits = file.highest_by_rank();
  std::vector<double> weights;
  batches highest;
  for (const auto position : present) {
    weights.push_back(before[position] > 0 ? before[position] : workers > 0 ? known / workers : 1);
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
  std::optional<reflexes> reflex;
  batches in_force;
  messages::decision_key key;
  std::deque<pending_decision> pending;
  bool over = false;
  std::uint64_t steps_of_generation = 0;
  batches gathered; ///< of the step after the one at hand, where the workers move work by themselves
  policy::judged_window window;
  std::vector<messages::trajectory> rollout;
  std::vector<messages::evaluation_report> evaluations;
  run_result counted; ///< what the world does not know

  state(scenario what, std::unique_ptr<policy::controller> decider, std::uint64_t seed)
      : world(std::move(what), seed), generation(world.generation()), knowing(dynamic_cast<oracle*>(decider.get())),
        deliberation(world.what().file, std::move(decider)), evaluation_numbers(seed, 0, evaluation_purpose),
        in_force(world.present().size(), file().batch.initial), over(!world.failure().empty()) {
    if (file().simulation.reflex && knowing == nullptr)
      reflex.emplace(world.what());
    if (knowing != nullptr && !over)
      in_force = best_batches(world.look(), file().batch);
  }

  const cluster::cluster_file& file() const { return world.what().file; }
  messages::shard_report run_window();
  messages::shard_report run_with_reflex();
  void decide(messages::shard_report& shard);
  void enter_generation(const std::vector<std::size_t>& before);
  void evaluate(std::uint64_t samples_before, const messages::window_report& report);
};

/// In every step the workers gather what each has measured up to the step before, and what they conclude holds from the
/// step after it on, as an agreement does in training (client/lockstep.hpp).
messages::shard_report simulation::state::run_with_reflex() {
  auto shard = world.run_window(
      [this] {
        if (steps_of_generation++ > 0)
          reflex->measure(world.present(), world.computed_seconds(), world.newest_step_seconds(), in_force);
        if (!gathered.empty())
          in_force = std::exchange(gathered, {});
        gathered = reflex->react(world.present(), in_force);
        return in_force;
      },
      key);
  if (!shard.reports.empty())
    reflex->measure(shard.reports.front());
  return shard;
}

messages::shard_report simulation::state::run_window() {
  if (knowing != nullptr && knowing->every_step) {
    pending.clear();
    return world.run_window([this] { return in_force = planner(world.look_at_step(), file().batch); }, key);
  }
  if (reflex)
    return run_with_reflex();
  batches settling;
  const auto end = world.steps() + file().arbitrator.window_steps;
  for (; !pending.empty() && pending.front().first_step < end; pending.pop_front()) {
    if (pending.front().first_step > world.steps())
      settling = in_force;
    key = pending.front().key;
    in_force = std::move(pending.front().split);
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
  if (!reflex)
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
  steps_of_generation = 0;
  gathered.clear();
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
  auto decider = cluster::knows_truth(policy) ? std::make_unique<oracle>(policy == cluster::policy_kind::step_oracle)
                                              : policy::make_controller(what.file, parameters);
  state_ = std::make_unique<state>(std::move(what), std::move(decider), seed);
}

simulation::simulation(scenario what, std::unique_ptr<policy::controller> decider, std::uint64_t seed)
    : state_(std::make_unique<state>(std::move(what), std::move(decider), seed)) {}

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
