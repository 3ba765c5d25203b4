#pragma once

/// A guard around a learned policy: it lets through what the measurements do not speak against, and puts the best
/// heuristic's batch sizes in the place of the rest. Includes no Torch.

#include "policy/controller.hpp"
#include "policy/state_range.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::policy {

/// What the guard goes by.
struct guard_rules {
  double margin = 0.05;   ///< share of the predicted goodput that a choice may give away, [0, 1]
  state_range trained_on; ///< empty: not known, so not looked at
  bool balanced = false;  ///< workers share the global batch by their paces, whatever the shares of a decision;
                          ///< not where a report says that its worker shares cores
};

/// What it remembers from one window to the next.
struct guard_memory {
  /// How long the policy has kept one worker at a bound where the heuristic would not.
  struct bound_run {
    std::uint32_t batch = 0;
    std::uint32_t windows = 0;
  };
  std::uint64_t generation = 0;
  std::uint32_t hold = 0;                    ///< windows that the heuristic goes on for, unless the policy comes close
  std::map<std::uint32_t, bound_run> bounds; ///< by rank
};

struct guard_verdict {
  std::string intervention; ///< why it steps in, one of a few short phrases; empty: the choices stand
  std::string reason;       ///< the same with figures, for a person
  guard_memory memory;      ///< for the next window
  std::string view;         ///< what it compared, also where the choices stand
};

/// Whether the choices of a learned policy stand. `fallback` holds the heuristic's batch sizes in the reports' order,
/// inside the limits. It steps in when
/// - a choice is none: not one a report, outside [lowest, highest], not finite;
/// - while the noise scale is not measured, the global batch grows beyond twice its initial size;
/// - the predicted goodput is lower than the fallback's by more than the margin, by the step-time tables and by the
///   newest window both (while the noise scale is not measured: than that of the best split of as many samples);
/// - two or more entries of a worker's state are further outside the range of training than 10 % of its width + 0.1;
/// - the policy has kept a worker at a bound for 8 windows in a row, and the fallback, which promises more, is more
///   than 10 % off that bound;
/// - it has stepped in less than 3 windows ago, and the choice is not within half the margin.
/// While nothing is measured only the first is looked at.
///
/// Where workers share by their paces, it compares the best splits of either global batch, and entries outside the
/// range of training speak against a choice only where it promises less by more than half the margin. Pure.
/// `untrained`: what a shard has found of the states, which the root does not see.
guard_verdict review(const std::vector<choice>& choices, const std::vector<std::uint32_t>& fallback,
                     const observation& observed, const guard_rules& rules, guard_memory memory,
                     const std::string& untrained = {});

/// `learned` under guard; the heuristic is `goodput` (policy/rivals.hpp). Where the guard steps in, every worker gets
/// the heuristic's batch size, and its choice says what was proposed, why that does not stand, and that no action was
/// taken. All else is passed through, exceptions too. Throws std::invalid_argument when the range is not one of this
/// program's states.
std::unique_ptr<controller> make_guarded(std::unique_ptr<controller> learned, const cluster::cluster_file& file,
                                         state_range trained_on);

} // namespace dynamix::policy
