#pragma once

/// A worker's own small network over what it sees of the traces, and how it learns by itself. Written out instead of
/// with Torch: a step of a thousand multiplications costs less than one call there, and the training thread of every
/// worker runs it at every step.

#include "messages/types.hpp"
#include "policy/traces.hpp"
#include "storage/splitmix64.hpp"
#include "storage/tensor_file.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dynamix::policy {

/// One hidden layer of rectified units, and the value of every action.
class trace_network {
public:
  static constexpr std::size_t hidden = 32;
  static constexpr std::size_t actions = trace_actions.size();
  static constexpr std::size_t parameter_count = hidden * (trace_inputs + 1) + actions * (hidden + 1);
  using values = std::array<float, actions>;
  using parameters = std::array<float, parameter_count>;

  /// All values 0: the hand rule, since of equal values the first counts.
  trace_network() = default;
  /// Random first layer (He et al. 2015, arXiv 1502.01852), second one 0: its values are 0, and it can learn.
  explicit trace_network(storage::splitmix64& numbers);
  explicit trace_network(const parameters& given) : weights_(given) {}

  values evaluate(const trace_view& seen) const;
  /// The action of the highest value.
  std::size_t best(const trace_view& seen) const;
  /// Adds the gradient of the sum of all values, each times its slope, to `gradient`.
  void differentiate(const trace_view& seen, const values& slopes, parameters& gradient) const;
  /// What the action is worth at first, whatever is seen: the bias of its value.
  void prefer(std::size_t action, float value);
  const parameters& weights() const { return weights_; }
  parameters& weights() { return weights_; }

private:
  std::array<float, hidden> activate(const trace_view& seen) const;

  parameters weights_{}; ///< [inputs][hidden], [hidden], [hidden][actions], [actions]
};

/// What a group of workers goes by: networks of their own, the n-th worker the n-th, and those beyond them from the
/// first again.
struct trace_policy {
  std::vector<trace_network> networks; ///< none: all act by the hand rule
  bool masked = false;                 ///< trained without traces, to compare with
  bool heeds_decisions = false;        ///< a decision's global batch is a wish (central_wish); no part of the file
  std::uint64_t version = 0;

  std::size_t choose(std::size_t worker, const trace_view& seen) const {
    return networks.empty() ? hand_action : networks[worker % networks.size()].best(seen);
  }
};
/// As many as a policy's bytes hold.
inline constexpr std::size_t trace_networks_max =
    (messages::max_policy_bytes - (64U << 10)) / sizeof(trace_network::parameters);

/// As a tensor file: metadata format "dynamix-policy-1", kind "stigmergic", inputs, hidden, actions, masked and
/// version; tensor "networks" [networks, parameters]. Tensors whose name begins with "learner." are passed over.
storage::tensor_file to_file(const trace_policy& policy);
/// Returns an empty string, or why it does not fit; then `result` has not changed.
std::string from_file(const storage::tensor_file& file, trace_policy& result);
/// The same from the bytes of a file. No bytes: the hand rule.
std::string read_trace_policy(std::span<const std::uint8_t> bytes, trace_policy& result);

/// Kingma and Ba 2015, arXiv 1412.6980.
struct trace_adam {
  trace_network::parameters mean{};
  trace_network::parameters square{};
  std::uint64_t updates = 0;

  void descend(trace_network::parameters& weights, const trace_network::parameters& gradient, double learning_rate);
};

struct trace_transition {
  trace_view seen{};
  std::size_t action = 0;
  float reward = 0;
  trace_view next{};
};

struct trace_learning {
  double learning_rate = 0.0005;
  double discount = 0.5;
  std::uint32_t replay = 4000; ///< transitions that are remembered
  std::uint32_t minibatch = 32;
  std::uint32_t steps_an_update = 32; ///< that are lived through
  std::uint32_t follow_every = 250;   ///< updates after which the target network follows
};

/// Double DQN (van Hasselt et al. 2016, arXiv 1509.06461) with the Huber loss, Adam, and a memory of its own.
class trace_learner {
public:
  trace_learner(const trace_network& start, std::uint64_t seed, trace_learning options);

  const trace_network& network() const { return network_; }
  void remember(const trace_transition& one);
  /// One update on a minibatch of what is remembered; nothing before there is one.
  void learn();
  /// Remembers all of them, and learns after every so many.
  void learn_from(std::span<const trace_transition> lived);
  void set_learning_rate(double rate) { options_.learning_rate = rate; }
  /// All but what is remembered, as numbers; `restore` takes as many back.
  static constexpr std::size_t saved_numbers = 4 * trace_network::parameter_count + 2;
  static constexpr std::size_t saved_squares = 3 * trace_network::parameter_count; ///< from here none is below 0
  std::vector<double> save() const;
  void restore(std::span<const double> saved);

private:
  trace_learning options_;
  trace_network network_;
  trace_network target_;
  std::vector<trace_transition> memory_;
  std::size_t oldest_ = 0;
  trace_adam adam_;
  storage::splitmix64 numbers_;
};

} // namespace dynamix::policy
