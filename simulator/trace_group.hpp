#pragma once

/// The workers of one generation in virtual time, each by itself and all by the same traces (policy/traces.hpp). Here
/// they are one object; in training each is a process that holds its own worker and a copy of the field.

#include "messages/types.hpp"
#include "policy/trace_network.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace dynamix::simulator {

class trace_group {
public:
  /// What a worker does, by its position and by what it sees.
  using chooser = std::function<std::size_t(std::size_t worker, const policy::trace_view& seen)>;
  /// What the step that has run was worth, to a worker that has seen and done this and now sees `next`.
  using learning = std::function<void(std::size_t worker, const policy::trace_transition& made)>;

  /// `highest`: one a worker. `least_total`: of the global batch.
  trace_group(std::uint32_t lowest, std::vector<std::uint32_t> highest, double least_total, bool masked);

  /// A step has run: under these batch sizes, so many seconds computed by each, so long in all. Returns the batch sizes
  /// of the next. The first step is not measured, as in training.
  std::vector<std::uint32_t> step(const std::vector<std::uint32_t>& in_force, std::span<const double> computed,
                                  double step_seconds, double noise_scale, const chooser& choose,
                                  const learning& learn = {});
  /// A central decision on that window is in force, with this global batch.
  void decide(std::uint64_t window, std::uint64_t total) { wish_.decide(window, total); }
  /// A window has closed: tells what was moved in it since the one before.
  void report(std::vector<messages::window_report>& reports);
  const policy::trace_field& field() const { return field_; }
  const policy::trace_worker& worker(std::size_t position) const { return workers_[position]; }

private:
  struct choice {
    policy::trace_view seen{};
    std::size_t action = 0;
  };
  std::uint32_t lowest_;
  std::vector<std::uint32_t> highest_;
  policy::trace_field field_;
  policy::central_wish wish_;
  std::vector<policy::trace_worker> workers_;
  std::vector<choice> chosen_; ///< for the step that runs; empty: none
  std::vector<policy::trace> laid_;
  std::vector<policy::reflex_account> accounts_;
  std::vector<std::uint32_t> reported_; ///< batch sizes at the end of the window before; empty: none
  bool first_ = true;
};

} // namespace dynamix::simulator
