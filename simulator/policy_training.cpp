#include "simulator/policy_training.hpp"

#include "simulator/parallel.hpp"
#include "simulator/random_stream.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fmt/core.h>
#include <iterator>
#include <stdexcept>

namespace dynamix::simulator {
namespace {

// Learners and policies pass over tensors of this prefix, and over metadata that they do not know.
constexpr const char* curve_name = "learner.training.curve";
constexpr const char* episodes_name = "training.episodes";

storage::tensor_record to_record(const training_curve& curve) {
  std::vector<double> numbers;
  for (const auto& point : curve)
    for (const auto& column : curve_columns)
      numbers.push_back(point.*column.value);
  storage::tensor_record record{
      .name = curve_name,
      .type = storage::element_type::f64,
      .shape = {static_cast<std::int64_t>(curve.size()), static_cast<std::int64_t>(curve_columns.size())}};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(numbers.data());
  record.data.assign(bytes, bytes + numbers.size() * sizeof(double));
  return record;
}

/// False when the record is not of a curve.
bool from_record(const storage::tensor_record* record, training_curve& curve) {
  if (record == nullptr || record->type != storage::element_type::f64 || record->shape.size() != 2 ||
      record->shape[1] != static_cast<std::int64_t>(curve_columns.size()))
    return false;
  curve.resize(static_cast<std::size_t>(record->shape[0]));
  const auto* bytes = record->data.data();
  for (auto& point : curve)
    for (const auto& column : curve_columns) {
      std::memcpy(&(point.*column.value), bytes, sizeof(double));
      bytes += sizeof(double);
    }
  return true;
}

/// Keeps the trajectories of at most policy_training::workers_most workers; `turn` says which.
void thin(std::vector<messages::trajectory>& rollout, std::uint64_t turn) {
  std::vector<std::uint32_t> ranks;
  for (const auto& trajectory : rollout)
    if (ranks.empty() || ranks.back() != trajectory.rank)
      ranks.push_back(trajectory.rank);
  const std::size_t stride = (ranks.size() + policy_training::workers_most - 1) / policy_training::workers_most;
  std::erase_if(rollout, [&](const messages::trajectory& trajectory) {
    const auto place = std::ranges::lower_bound(ranks, trajectory.rank) - ranks.begin();
    return static_cast<std::uint64_t>(place) % stride != turn % stride;
  });
}

} // namespace

policy_training::policy_training(std::vector<scenario> scenarios, policy_training_options options,
                                 const policy::learner_maker& make, const std::vector<std::uint8_t>& saved)
    : scenarios_(std::move(scenarios)), options_(options) {
  if (scenarios_.empty())
    throw std::invalid_argument("there is no scenario to train on");
  for (auto& each : scenarios_)
    each.file.arbitrator.mode = cluster::policy_mode::train;
  auto file = scenarios_.front().file;
  file.seed = options_.seed;
  learner_ = make(file, saved);
  if (learner_ == nullptr)
    throw std::invalid_argument("\"" + std::string(cluster::to_string(file.arbitrator.policy)) +
                                "\" learns nothing; choose ppo, ppo-add or ppo-simple");
  if (storage::tensor_file file; !saved.empty()) {
    auto problem = storage::decode(saved, file);
    if (problem.empty())
      problem = restore_course(file);
    if (!problem.empty())
      throw std::invalid_argument(problem);
  }
  const std::size_t turns =
      (std::max<std::size_t>(options_.environments, 1) + scenarios_.size() - 1) / scenarios_.size();
  environments_.resize(turns * scenarios_.size());
  for (std::size_t j = 0; j < environments_.size(); ++j)
    environments_[j].number = j;
}

void policy_training::begin_episode(environment& place, const messages::policy_version& version) const {
  random_stream seeds(options_.seed, place.number, episodes_before_ + place.episodes);
  auto varied = randomise(scenarios_[place.number % scenarios_.size()], seeds.next());
  varied.file.seed = seeds.next(); // of the actions
  place.run.emplace(std::move(varied), version.parameters, seeds.next());
  ++place.episodes;
}

policy_training::harvest policy_training::advance(environment& place, const messages::policy_version& version) const {
  harvest result;
  const std::uint64_t begun = place.episodes;
  if (place.run)
    if (const auto problem = place.run->adopt(version); !problem.empty())
      throw std::logic_error("the learner's own parameters were refused: " + problem);
  const std::uint64_t windows_most = horizons_most * scenarios_.front().file.ppo.horizon;
  while (result.rollout.empty() && result.windows < windows_most) {
    if (!place.run || place.run->done())
      begin_episode(place, version);
    place.run->advance();
    ++result.windows;
    result.rollout = place.run->take_rollout();
    if (place.run->done() && !place.run->result().failure.empty())
      result.failure = place.run->result().failure;
  }
  if (!result.rollout.empty())
    thin(result.rollout, place.rollouts++);
  result.episodes = place.episodes - begun;
  return result;
}

const training_point& policy_training::run_round() {
  const auto version = learner_->current();
  std::vector<harvest> harvests(environments_.size());
  for_each_index(environments_.size(), options_.jobs,
                 [&](std::size_t j) { harvests[j] = advance(environments_[j], version); });

  std::vector<messages::trajectory> rollout;
  std::string failure;
  for (auto& [trajectories, windows, episodes, problem] : harvests) {
    windows_ += windows;
    episodes_ += episodes;
    std::ranges::move(trajectories, std::back_inserter(rollout));
    if (!problem.empty())
      failure = "; a run failed: " + problem;
  }
  if (rollout.empty())
    throw std::runtime_error(
        fmt::format("no environment gave a rollout of ppo.horizon = {} windows: the runs may be shorter than that{}",
                    scenarios_.front().file.ppo.horizon, failure));
  const auto learned = learner_->update(rollout);
  training_point point{.update = static_cast<double>(++updates_),
                       .windows = static_cast<double>(windows_),
                       .policy_loss = learned.policy_loss,
                       .value_loss = learned.value_loss,
                       .entropy = learned.entropy,
                       .approximate_kl = learned.approximate_kl,
                       .clip_fraction = learned.clip_fraction};
  double sum = 0;
  for (const auto& trajectory : rollout)
    for (const auto& step : trajectory.transitions) {
      sum += step.reward;
      ++point.transitions;
    }
  point.reward = sum / point.transitions;
  return curve_.emplace_back(point);
}

std::vector<std::uint8_t> policy_training::save() const {
  storage::tensor_file file;
  if (const auto problem = storage::decode(learner_->save(), file); !problem.empty())
    throw std::logic_error("the learner saved what cannot be read: " + problem);
  file.tensors.push_back(to_record(curve_));
  file.metadata[episodes_name] = std::to_string(episodes_);
  return storage::encode(file);
}

bool policy_training::record(const validation_scores& scores) {
  const auto* before = best();
  const bool better = before == nullptr || scores.against_goodput > before->against_goodput;
  if (curve_.empty())
    curve_.emplace_back();
  curve_.back().against_goodput = scores.against_goodput;
  curve_.back().against_static = scores.against_static;
  return better;
}

const training_point* policy_training::best() const {
  const training_point* best = nullptr;
  for (const auto& point : curve_)
    if (std::isfinite(point.against_goodput) && (best == nullptr || point.against_goodput > best->against_goodput))
      best = &point;
  return best;
}

std::string policy_training::restore_course(const storage::tensor_file& file) {
  if (!from_record(file.find(curve_name), curve_))
    return "it has no learning curve: it is a policy, not a training to go on with";
  const auto found = file.metadata.find(episodes_name);
  const std::string text = found == file.metadata.end() ? "" : found->second;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), episodes_);
  if (error != std::errc() || stop != text.data() + text.size())
    return "its number of episodes is \"" + text + "\"";
  episodes_before_ = episodes_;
  if (!curve_.empty()) {
    updates_ = static_cast<std::uint64_t>(curve_.back().update);
    windows_ = static_cast<std::uint64_t>(curve_.back().windows);
  }
  return {};
}

void align(std::vector<scenario>& scenarios) {
  for (auto& each : scenarios) {
    const auto& first = scenarios.front().file;
    each.file.arbitrator.policy = first.arbitrator.policy;
    each.file.arbitrator.actions = first.arbitrator.actions;
    each.file.arbitrator.scales = first.arbitrator.scales;
    each.file.arbitrator.guard = false;
    each.file.arbitrator.shadow = false;
    each.file.ppo = first.ppo;
    each.file.reward = first.reward;
  }
}

} // namespace dynamix::simulator
