#pragma once

#include "policy/controller.hpp"
#include "simulator/world.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::simulator {

/// The batch sizes with the highest true goodput, each from limits.lowest to its `now.highest`, to within a thousandth
/// of that goodput.
///
/// For every step time T the workers compute as much as T allows, since samples never harm; what is left is the best T.
/// Between two step times no goodput exceeds what the longer one computes in the shorter one's time, so whole ranges of
/// T are ruled out at once. Where cores are shared, when a worker computes decides who else waits, so
/// goodput is rugged: the result is improved by moving samples until no move helps, and ends within a tenth of the
/// best.
std::vector<std::uint32_t> best_batches(const truth& now, const cluster::batch& limits);

/// Says what it has been told; the truth is not in its observations.
class oracle : public policy::joint_controller {
public:
  explicit oracle(bool every_step) : every_step(every_step) {}
  std::string name() const override { return every_step ? "step-oracle" : "oracle"; }
  std::vector<policy::choice> choose_all(const policy::observation& observed) override;

  const bool every_step;           ///< otherwise once a window
  std::vector<std::uint32_t> next; ///< by rank; empty: what is assigned
};

/// The best batch sizes of every step. They change with hosts and links; the noise scale, which moves slowly, is
/// followed by the hundredth.
class step_planner {
public:
  std::vector<std::uint32_t> operator()(const truth& now, const cluster::batch& limits);

private:
  bool holds(const truth& now) const;

  truth before_;
  std::vector<std::uint32_t> best_;
};

} // namespace dynamix::simulator
