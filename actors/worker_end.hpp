#pragma once

/// How a worker comes to its end: training is over, it is asked to stop, or its host leaves and the others go on.

#include "actors/worker.hpp"

#include <string>

namespace dynamix::actors::working {

using pointer = worker_local::stateful_pointer<worker_state>;

/// Its training thread leaves its generation at once, and drops the step in flight.
void interrupt(pointer self, const std::string& reason);
/// The worker has ended; the host is told.
void end(pointer self, bool succeeded, const std::string& reason);
/// Training is over for this worker: says farewell, and ends.
void conclude(pointer self, const trainer::outcome& outcome);
/// Training is to end.
void stop(pointer self);
/// Its host leaves.
void leave(pointer self);
/// Between two generations: no other is waited for once a stop or a leave was asked for. False: neither was.
bool end_between_generations(pointer self);
/// In mid-training: what is to be done by now about a leave that was asked for.
void look_after_leave(pointer self);

} // namespace dynamix::actors::working
