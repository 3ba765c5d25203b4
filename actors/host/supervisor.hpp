#pragma once

#include "actors/atoms.hpp"
#include "actors/host/supervision.hpp"
#include "actors/host_events.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::actors {

/// A child and how to start it; the start also hands the new handle to whoever needs it.
struct child_specification {
  std::string name;
  std::function<caf::strong_actor_ptr()> start;
};

struct supervisor_state {
  static constexpr const char* name = "supervisor";
  struct child {
    child_specification specification;
    caf::strong_actor_ptr actor; ///< null while it is stopped
  };
  std::vector<child> children;
  std::optional<supervision> policy;
  std::vector<std::size_t> to_restart; ///< planned and not started yet, in order
  std::shared_ptr<host_events> events;
  std::function<void(const std::string& reason)> told; ///< of every restart; may be empty
};

/// Whether all of them answer within `patience`: none hangs, nor does the scheduler. Waits for that.
bool all_answer(caf::actor_system& system, const std::vector<caf::actor>& supervisors,
                std::chrono::milliseconds patience);

/// Starts its children in order and restarts them as `options` say, whatever the reason of their end: a child that the
/// supervisor has not asked to end is missed even where it ended normally. Gives up by telling `events` and ending; its
/// children end with it, last first.
caf::behavior supervisor(caf::stateful_actor<supervisor_state>* self, supervision_options options,
                         std::vector<child_specification> children, std::shared_ptr<host_events> events,
                         std::function<void(const std::string& reason)> told);

} // namespace dynamix::actors
