#pragma once

/// The workers of one generation in virtual time, who share the global batch by their paces (policy/balance.hpp). In
/// training each is a process with a balancer of its own and the rows of all (client/lockstep.hpp).

#include "messages/types.hpp"
#include "policy/balancer.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::simulator {

class balanced_group {
public:
  /// `highest`: one a worker. `least_total`: of the global batch, where the workers choose it (balancing::all).
  balanced_group(messages::balancing how, std::uint32_t lowest, std::vector<std::uint32_t> highest,
                 std::uint64_t least_total);

  /// A step has run: under these batch sizes, so many seconds computed by each, so long in all. Returns the batch sizes
  /// of the next, at the global batch of `decided`, the decision that comes into force then; empty: there is none. The
  /// first step is not measured, as in training.
  std::vector<std::uint32_t> step(const std::vector<std::uint32_t>& in_force, std::span<const double> computed,
                                  double step_seconds, double noise_scale, const std::vector<std::uint32_t>& decided);
  /// A window has closed: tells what was moved in it.
  void report(std::vector<messages::window_report>& reports);

private:
  messages::balancing how_;
  std::uint32_t lowest_;
  std::vector<std::uint32_t> highest_;
  std::uint64_t least_total_;
  std::vector<policy::balancer> workers_;
  bool first_ = true;
};

} // namespace dynamix::simulator
