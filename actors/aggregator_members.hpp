#pragma once

/// The aggregator's part that deals with who is there: hellos, signs of life, generations, farewells, the end.

#include "actors/aggregator.hpp"

namespace dynamix::actors::aggregating {

using pointer = aggregator_local::stateful_pointer<aggregator_state>;

/// Who finished this very training under the leader before.
std::optional<std::uint32_t> finished_before(const aggregator_options& options);
void write_row(pointer self, ledger::entry entry);
/// The window that a worker trains in which has completed these steps.
std::uint64_t window_after(pointer self, std::uint64_t steps);
/// Hands closed windows to the arbitrator.
void pass_on(pointer self, const std::vector<closed_window>& closed);
/// The arbitrator decides under a term above every one that a worker has obeyed or that was kept.
void raise_term(pointer self);

caf::result<message<messages::welcome>, aggregator_actor> admit(pointer self, const message<messages::hello>& said,
                                                                const worker_actor& caller);
/// Judges a hello and takes the worker in; what follows comes later, so that a place does not come before the answer.
messages::welcome take_in(pointer self, const messages::hello& hello);
const std::string& host_of(pointer self, std::uint32_t rank);
void lose_worker(pointer self, std::uint32_t rank, const std::string& detail);
void take_sign(pointer self, const messages::heartbeat& sign);
void take_beat(pointer self, const message<messages::heartbeat>& received);
caf::result<atom::farewell> take_farewell(pointer self, const message<messages::farewell>& received);
/// All workers are to end training.
void stop(pointer self);
void worker_down(pointer self, const caf::down_msg& down);
/// Does what the membership wants done by now, and looks whether the run is over.
void look_after_members(pointer self);

} // namespace dynamix::actors::aggregating
