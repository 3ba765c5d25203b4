#include "policy/policy_controller.hpp"

#include "policy/accuracy_history.hpp"
#include "policy/actions.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/planned_actions.hpp"
#include "policy/policy_file.hpp"
#include "policy/rivals.hpp"
#include "policy/state.hpp"
#include "storage/splitmix64.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/core.h>
#include <stdexcept>

namespace dynamix::policy {
namespace {

/// One seed of two numbers.
std::uint64_t mix(std::uint64_t seed, std::uint64_t number) {
  return storage::splitmix64(seed + storage::splitmix64::increment * number).next();
}

class policy_controller final : public controller {
public:
  policy_controller(const cluster::cluster_file& file, const std::vector<std::uint8_t>& parameters)
      : limits_(file.batch), mode_(file.arbitrator.mode), shape_(shape_of(file)),
        planned_(file.arbitrator.policy == cluster::policy_kind::ppo),
        tries_votes_(file.arbitrator.mode == cluster::policy_mode::train && !file.arbitrator.guard),
        estimates_value_(file.arbitrator.policy != cluster::policy_kind::ppo_simple), seed_(file.seed),
        network_(make_network(shape_, file.seed)), generator_(make_generator(file.seed, random_purpose::actions)) {
    if (parameters.empty())
      return;
    if (auto error = from_bytes(parameters, shape_, network_, version_); !error.empty())
      throw std::invalid_argument("the policy's parameters do not fit: " + error);
  }

  std::string name() const override { return shape_.kind; }
  bool learns() const override { return mode_ == cluster::policy_mode::train; }
  std::uint64_t version() const override { return version_; }
  void survey(const observation& all, ruling& result) const override;
  std::vector<choice> propose(const observation& own, const ruling& known) override;
  void rule(const observation& all, const std::vector<choice>& proposals, const std::string& untrained,
            ruling& result) override;
  void settle(const observation& own, const ruling& known, std::vector<choice>& choices) override;
  std::string adopt(const messages::policy_version& version) override;

private:
  void judge_states(std::vector<choice>& choices) const;
  void draw_actions(const observation& own, std::vector<choice>& choices);
  void act_on_batch(choice& chosen, std::uint32_t assigned, std::uint32_t highest);
  std::string odds(const choice& chosen) const;
  bool is_action(std::int32_t vote) const { return vote >= 0 && static_cast<std::size_t>(vote) < shape_.outputs(); }

  cluster::batch limits_;
  cluster::policy_mode mode_;
  policy_shape shape_;
  bool planned_;
  bool tries_votes_;     ///< whatever they are predicted to gain
  bool estimates_value_; ///< ppo-simple never trains the value network, so what it says is worth nothing
  std::uint64_t seed_;
  policy_network network_;
  std::uint64_t version_ = 0;
  std::mt19937_64 generator_;
  accuracy_history accuracies_;
};

/// Fills in probabilities and values; the log-probabilities of the actions once they are chosen.
void policy_controller::judge_states(std::vector<choice>& choices) const {
  for (auto& each : choices) {
    each.probabilities = network_.probabilities(each.state);
    each.value = estimates_value_ ? network_.value(each.state) : 0;
  }
}

void policy_controller::survey(const observation& all, ruling& result) const {
  if (all.measured->any_measured())
    survey_plan(*all.measured, all.measured->best(), all.assigned, *all.report, result);
}

std::vector<choice> policy_controller::propose(const observation& own, const ruling& known) {
  check(own);
  const auto& reports = own.report->reports;
  if (reports.empty())
    return {};
  if (planned_ && !known.planned)
    return keep_assigned(own, "no worker measured yet");
  std::vector<choice> choices(reports.size());
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const auto view = view_plan(*own.measured, i, known, guidance_for(known, reports[i].rank).planned);
    choices[i].rank = reports[i].rank;
    choices[i].batch = own.assigned[i];
    choices[i].state =
        normalise(reports[i], accuracies_.previous(reports[i]), own.assigned[i], known.sums, limits_, view);
  }
  judge_states(choices);
  draw_actions(own, choices);
  for (auto& chosen : choices) {
    chosen.log_probability = std::log(chosen.probabilities[static_cast<std::size_t>(chosen.action)]);
    chosen.vote = chosen.action;
  }
  return choices;
}

/// In a shard every worker has a stream of its own for each window, and the common number is the window's.
void policy_controller::draw_actions(const observation& own, std::vector<choice>& choices) {
  if (own.sharded)
    generator_ = make_generator(mix(seed_, own.report->window), random_purpose::actions);
  const auto common = generator_;
  if (planned_)
    generator_.discard(1);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (own.sharded && learns())
      generator_ = make_generator(mix(mix(seed_, own.report->window), choices[i].rank + 1), random_purpose::actions);
    if (!planned_)
      act_on_batch(choices[i], own.assigned[i], own.highest[i]);
    else
      choices[i].action =
          static_cast<std::int32_t>(learns() ? draw_planned_action(choices[i].probabilities, common, generator_)
                                             : best_action(choices[i].probabilities));
  }
}

void policy_controller::rule(const observation& all, const std::vector<choice>& proposals, const std::string&,
                             ruling& result) {
  std::vector<std::uint32_t> wanted;
  for (const auto& each : proposals)
    wanted.push_back(each.batch);
  if (planned_ && result.planned) {
    std::vector<planned_action> actions;
    for (const auto& each : proposals)
      actions.push_back(is_action(each.vote) ? to_planned_action(static_cast<std::size_t>(each.vote), shape_.actions)
                                             : planned_action{}); // a shard may say anything
    auto target = find_planned_target(*all.measured, actions, all.assigned, tries_votes_);
    result.target_seconds = target.seconds;
    result.reason = std::move(target.reason);
    wanted = std::move(target.plan.batches);
  }
  rule_batches(all, wanted, result);
}

void policy_controller::settle(const observation& own, const ruling& known, std::vector<choice>& choices) {
  if (!planned_)
    return;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    auto& chosen = choices[i];
    if (chosen.vote < 0)
      continue;
    const auto action = to_planned_action(static_cast<std::size_t>(chosen.vote), shape_.actions);
    const auto ruled = guidance_for(known, chosen.rank).ruled;
    // Also where a newer window would give less: the root weighs a change against all that it may gain.
    chosen.batch = ruled == 0 ? own.assigned[i] : std::min(ruled, own.highest[i]);
    chosen.reason = describe(action, known.ruled_total) + odds(chosen);
    if (!known.reason.empty())
      chosen.reason += "; " + known.reason;
  }
}

void policy_controller::act_on_batch(choice& chosen, std::uint32_t assigned, std::uint32_t highest) {
  chosen.action = static_cast<std::int32_t>(learns() ? draw_action(chosen.probabilities, generator_)
                                                     : best_action(chosen.probabilities));
  const auto change = shape_.actions[static_cast<std::size_t>(chosen.action)];
  auto limits = limits_;
  limits.highest = highest;
  const auto applied = apply_action(assigned, change, limits);
  chosen.batch = applied.batch;
  char text[32];
  std::snprintf(text, sizeof text, "action %+d", change);
  chosen.reason = text + odds(chosen);
  if (applied.clamped)
    chosen.reason += fmt::format("; clamped at {}", applied.batch);
}

/// " (p=0.31), value 1.20"
std::string policy_controller::odds(const choice& chosen) const {
  char text[64];
  std::snprintf(text, sizeof text, " (p=%.2f)",
                static_cast<double>(chosen.probabilities[static_cast<std::size_t>(chosen.action)]));
  std::string result = text;
  if (estimates_value_) {
    std::snprintf(text, sizeof text, ", value %.2f", static_cast<double>(chosen.value));
    result += text;
  }
  return result;
}

std::string policy_controller::adopt(const messages::policy_version& version) {
  if (!learns())
    return "the policy is frozen (mode infer)";
  if (version.parameters.size() > messages::max_policy_bytes)
    return fmt::format("the policy version is larger than {} bytes", messages::max_policy_bytes);
  if (version.version < version_)
    return fmt::format("the policy version {} is older than {}", version.version, version_);
  storage::tensor_file file;
  if (auto error = storage::decode(version.parameters, file); !error.empty())
    return error;
  if (file.metadata["version"] != std::to_string(version.version))
    return fmt::format("the policy version {} holds the parameters of version \"{}\"", version.version,
                       file.metadata["version"]);
  return from_file(file, shape_, network_, version_);
}

} // namespace

std::unique_ptr<controller> make_policy_controller(const cluster::cluster_file& file,
                                                   const std::vector<std::uint8_t>& parameters) {
  return std::make_unique<policy_controller>(file, parameters);
}

} // namespace dynamix::policy
