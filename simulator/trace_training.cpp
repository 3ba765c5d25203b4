#include "simulator/trace_training.hpp"

#include "simulator/parallel.hpp"
#include "simulator/random_stream.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

namespace dynamix::simulator {
namespace {

constexpr const char* learners_name = "learner.traces";
constexpr double explored_first = 0.5; ///< share of actions at random when a stage begins
constexpr double explored_last = 0.03;
constexpr double explored_until = 0.75; ///< of a stage, where it has fallen to the last
constexpr double cooled_from = 0.7;     ///< of a stage, from where the learning rate falls to 0
constexpr double drawing_most = 2;     ///< workers in a step, on average, who draw their action where they learn by PPO
constexpr double explorers_most = 0.5; ///< in a step, on average: who is late by chance would hide all others
constexpr float reward_scale = 10;     ///< of a logarithm of goodput, clipped to within 1
constexpr std::uint64_t learner_purpose = 0x74726163;
constexpr std::uint64_t world_purpose = 0x776f726c;
constexpr std::uint64_t explorer_purpose = 0x6578706c;

const policy::trace_network& network_of(const std::variant<policy::trace_learner, policy::trace_ppo_learner>& any) {
  return std::visit([](const auto& each) -> const policy::trace_network& { return each.network(); }, any);
}

} // namespace

trace_training::trace_training(std::vector<scenario> scenarios, trace_training_options options,
                               const std::vector<std::uint8_t>& saved)
    : options_(options) {
  std::map<std::size_t, std::vector<scenario>> by_workers;
  for (auto& each : scenarios) {
    const auto workers = each.file.workers().size();
    by_workers[workers].push_back(std::move(each));
  }
  if (by_workers.empty())
    throw std::invalid_argument("there is no scenario to train on");
  for (auto& [workers, stage] : by_workers)
    stages_.push_back(std::move(stage));
  environments_.resize(std::max(options_.environments, 1U));
  if (!saved.empty())
    if (const auto problem = restore(saved); !problem.empty())
      throw std::invalid_argument(problem);
  enter_stage(stage_of(updates_));
}

std::size_t trace_training::stage_of(std::uint64_t update) const {
  return std::min<std::size_t>(stages_.size() - 1, update * stages_.size() / std::max(options_.updates, 1U));
}

void trace_training::enter_stage(std::size_t stage) {
  stage_ = stage;
  const auto workers = stages_[stage].front().file.workers().size();
  random_stream numbers(options_.seed, stage, learner_purpose);
  std::vector<learner> grown;
  for (std::size_t i = 0; i < workers; ++i) {
    const auto seed = numbers.next();
    if (i < learners_.size())
      grown.push_back(learners_[i]);
    else if (learners_.empty())
      grown.push_back(new_learner(nullptr, seed, numbers.next()));
    else if (const auto& from = learners_[i % learners_.size()]; !options_.ppo)
      grown.push_back(new_learner(&network_of(from), seed, 0));
    else // with its critic, or it would unlearn by a random one's advantages
      std::get<policy::trace_ppo_learner>(grown.emplace_back(from)).reseed(seed);
  }
  learners_ = std::move(grown);
  for (auto& each : environments_)
    each.run.reset();
}

/// One that begins with that network; null: with one drawn from the second seed.
trace_training::learner trace_training::new_learner(const policy::trace_network* start, std::uint64_t seed,
                                                    std::uint64_t first_seed) const {
  storage::splitmix64 first(first_seed);
  if (options_.ppo) {
    const policy::trace_ppo_learning how;
    return policy::trace_ppo_learner(start != nullptr ? *start : policy::trace_ppo_learner::fresh(first, how), seed,
                                     how);
  }
  return policy::trace_learner(start != nullptr ? *start : policy::trace_network(first), seed, {});
}

/// Of actions, falling within a stage.
double trace_training::exploration() const {
  const double place =
      static_cast<double>(updates_ * stages_.size() % std::max(options_.updates, 1U)) / std::max(options_.updates, 1U);
  return explored_first * std::pow(explored_last / explored_first, std::min(1.0, place / explored_until));
}

std::size_t trace_training::rehearsed(std::size_t environment) const {
  return environment % 2 == 0 || stage_ == 0 ? stage_ : environment / 2 % stage_;
}

/// What a worker does, and whether it is to learn from that: of what PPO does, what was drawn.
std::size_t trace_training::act(environment& place, std::size_t worker, const policy::trace_view& seen,
                                double exploration, random_stream& numbers) const {
  const auto& own = learners_[worker % learners_.size()];
  if (place.counts.size() <= worker)
    place.counts.resize(worker + 1);
  auto& counts = place.counts[worker];
  const double chance = numbers.uniform();
  counts = {!options_.ppo || chance < drawing_most / static_cast<double>(learners_.size()), counts.first};
  if (const auto* by_odds = std::get_if<policy::trace_ppo_learner>(&own); by_odds != nullptr && counts.first)
    return by_odds->draw(seen, numbers.uniform());
  if (!options_.ppo && chance < exploration)
    return static_cast<std::size_t>(numbers.uniform() * policy::trace_actions.size());
  return network_of(own).best(seen);
}

void trace_training::advance(std::size_t number, double exploration, std::uint64_t seed) {
  auto& place = environments_[number];
  place.lived.assign(learners_.size(), {});
  if (options_.ppo) // the newest actions were drawn by the networks of the round before
    place.counts.clear();
  random_stream numbers(seed, number, explorer_purpose);
  const auto& scenarios = stages_[rehearsed(number)];
  exploration = std::min(exploration, explorers_most / static_cast<double>(scenarios.front().file.workers().size()));
  for (std::uint32_t window = 0; window < stages_.front().front().file.ppo.horizon; ++window) {
    if (!place.run || place.run->done()) {
      const auto turn = episodes_before_ + place.episodes++;
      random_stream seeds(options_.seed, number, world_purpose + turn);
      auto varied = randomise(scenarios[seeds.next() % scenarios.size()], seeds.next());
      policy::trace_policy blank{.networks = {network_of(learners_.front())}, .masked = options_.masked};
      place.run = std::make_unique<simulation>(std::move(varied), storage::encode(to_file(blank)), seeds.next());
    }
    // The environment may move between rounds, and what it learns with is this round's.
    place.run->learn_traces(
        [&](std::size_t worker, const policy::trace_view& seen) {
          return act(place, worker, seen, exploration, numbers);
        },
        [&](std::size_t worker, const policy::trace_transition& made) {
          if (place.counts[worker].second)
            place.lived[worker % learners_.size()].push_back(made);
        });
    place.run->advance();
  }
  place.run->learn_traces({}, {});
}

/// From what a worker has lived through in this round, at a share of the learning rate.
void trace_training::learn(std::size_t worker, double rate) {
  std::vector<policy::trace_transition> lived;
  for (auto& each : environments_)
    for (auto& one : each.lived[worker]) {
      one.reward = std::clamp(one.reward * reward_scale, -1.0F, 1.0F);
      lived.push_back(one);
    }
  const double whole =
      options_.ppo ? policy::trace_ppo_learning{}.learning_rate : policy::trace_learning{}.learning_rate;
  std::visit(
      [&](auto& own) {
        own.set_learning_rate(whole * rate);
        own.learn_from(lived);
      },
      learners_[worker]);
}

const training_point& trace_training::run_round() {
  if (const auto stage = stage_of(updates_); stage != stage_)
    enter_stage(stage);
  const auto begun = [this] {
    std::uint64_t sum = 0;
    for (const auto& each : environments_)
      sum += each.episodes;
    return sum;
  };
  const auto episodes = begun();
  const double explored = exploration();
  const auto seed = random_stream(options_.seed, updates_, explorer_purpose).next();
  for_each_index(environments_.size(), options_.jobs, [&](std::size_t j) { advance(j, explored, seed); });
  episodes_ += begun() - episodes;
  windows_ += environments_.size() * stages_.front().front().file.ppo.horizon;

  const double place =
      static_cast<double>(updates_ * stages_.size() % std::max(options_.updates, 1U)) / std::max(options_.updates, 1U);
  const double cooled = place > cooled_from ? (1 - place) / (1 - cooled_from) : 1;
  for_each_index(learners_.size(), options_.jobs, [&](std::size_t i) { learn(i, cooled); });
  training_point point{.update = static_cast<double>(++updates_), .windows = static_cast<double>(windows_)};
  double sum = 0;
  for (const auto& each : environments_)
    for (const auto& worker : each.lived)
      for (const auto& one : worker) {
        sum += one.reward;
        ++point.transitions;
      }
  point.reward = sum / std::max(1.0, point.transitions);
  return add(point);
}

messages::policy_version trace_training::current() const {
  policy::trace_policy policy{.masked = options_.masked, .version = updates_ + 1};
  for (const auto& each : learners_)
    policy.networks.push_back(network_of(each));
  return {.version = policy.version, .parameters = storage::encode(to_file(policy))};
}

std::vector<std::uint8_t> trace_training::save() const {
  storage::tensor_file file;
  if (const auto problem = storage::decode(current().parameters, file); !problem.empty())
    throw std::logic_error("the networks cannot be read again: " + problem);
  storage::tensor_record record{.name = learners_name,
                                .type = storage::element_type::f64,
                                .shape = {static_cast<std::int64_t>(learners_.size()), 0}};
  for (const auto& each : learners_) {
    const auto numbers = std::visit([](const auto& own) { return own.save(); }, each);
    record.shape.back() = static_cast<std::int64_t>(numbers.size());
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(numbers.data());
    record.data.insert(record.data.end(), bytes, bytes + numbers.size() * sizeof(double));
  }
  file.tensors.push_back(std::move(record));
  save_course(file);
  return storage::encode(file);
}

std::string trace_training::restore(const std::vector<std::uint8_t>& saved) {
  storage::tensor_file file;
  if (auto problem = storage::decode(saved, file); !problem.empty())
    return problem;
  policy::trace_policy policy;
  if (auto problem = policy::from_file(file, policy); !problem.empty())
    return problem;
  if (policy.masked != options_.masked)
    return "it was trained " + std::string(policy.masked ? "without" : "with") + " traces";
  if (auto problem = restore_course(file); !problem.empty())
    return problem;
  const auto* record = file.find(learners_name);
  const auto width = options_.ppo ? policy::trace_ppo_learner::saved_numbers : policy::trace_learner::saved_numbers;
  const auto squares = options_.ppo ? policy::trace_ppo_learner::saved_squares : policy::trace_learner::saved_squares;
  if (record == nullptr || record->type != storage::element_type::f64 || record->shape.size() != 2 ||
      record->shape[0] != static_cast<std::int64_t>(policy.networks.size()) ||
      record->shape[1] != static_cast<std::int64_t>(width))
    return "the tensor \"learner.traces\" is missing or of another shape: was it another --learner?";
  random_stream numbers(options_.seed, updates_, learner_purpose);
  std::vector<double> row(width);
  for (std::size_t i = 0; i < policy.networks.size(); ++i) {
    std::memcpy(row.data(), record->data.data() + i * width * sizeof(double), width * sizeof(double));
    // The second moments and the counts behind them are of squares and steps.
    const auto counted = std::span(row).subspan(squares);
    if (!std::ranges::all_of(row, [](double each) { return std::isfinite(each); }) ||
        !std::ranges::all_of(counted, [](double each) { return each >= 0 && each < 1e15; }))
      return "the tensor \"learner.traces\" has numbers that no learner has";
    learners_.push_back(new_learner(&policy.networks[i], numbers.next(), 0));
    std::visit([&](auto& own) { own.restore(row); }, learners_.back());
  }
  return {};
}

} // namespace dynamix::simulator
