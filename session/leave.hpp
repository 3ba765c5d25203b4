#pragma once

/// What a host that is asked to end does. Knows no CAF and no clock.
///
/// SIGTERM is meant for one host: its worker parts from the others, which go on without it. SIGINT is meant for the
/// training, as is a SIGTERM to the one arbitrator's host: all workers end it together at their next agreement.

#include "cluster/timeouts.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace dynamix::session {

struct host_roles {
  bool arbitrates = false; ///< the one arbitrator, a replica of it, or the root of a tree
  bool replicated = false; ///< others decide when it ends
};

struct host_stop {
  bool leaves = false; ///< else the training ends
  std::string reason;  ///< for a person
};

/// `one_host`: the request was for this host alone.
host_stop decide_host_stop(bool one_host, const host_roles& roles);

enum class leave_step : std::uint8_t {
  go,   ///< it is in no generation: say farewell
  ask,  ///< its peers to part at their next agreement, where no step is lost
  drop, ///< the step in flight, and go
  stop, ///< the training, since nobody would be left to go on
};

struct leave_decision {
  leave_step step = leave_step::go;
  std::string reason; ///< for a person
};

/// A worker whose host leaves since `asked_seconds`. `members`: of the generation that it trains in, 0 where it is in
/// none. Its peers are given as long as they would need to find it dead; a window may last much longer.
leave_decision decide_leave(double now_seconds, double asked_seconds, std::size_t members,
                            const cluster::timeouts& timeouts);

} // namespace dynamix::session
