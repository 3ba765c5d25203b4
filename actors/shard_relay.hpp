#pragma once

/// The shard's part that passes on what concerns membership: up to its parent, down to its workers and children.

#include "actors/shard.hpp"

namespace dynamix::actors::sharding {

using pointer = shard_local::stateful_pointer<shard_state>;

caf::result<message<messages::welcome>, aggregator_actor> take_hello(pointer self, const message<messages::hello>& said,
                                                                     const worker_actor& caller);
caf::result<message<messages::welcome>> relay_hello(pointer self, const message<messages::hello>& said,
                                                    const child_actor& child);
caf::result<message<messages::welcome>, parent_actor>
take_child(pointer self, const message<messages::shard_hello>& said, const child_actor& child);
void relay_placement(pointer self, const message<messages::recipients>& to,
                     const message<messages::placement>& placement, const store_actor& store);
void relay_notice(pointer self, const message<messages::recipients>& to,
                  const message<messages::generation_notice>& notice);
void relay_decisions(pointer self, const message<messages::recipients>& to,
                     const message<messages::decision>& decision);
void relay_guidance(pointer self, const message<messages::guidance>& guidance);
void relay_stop(pointer self);
caf::result<atom::farewell> relay_farewell(pointer self, const message<messages::farewell>& farewell);
/// The worker is here no more: its reports are not waited for.
void forget(pointer self, std::uint32_t rank);
/// Hands closed windows to the arbitrator or, joined, up.
void pass_on(pointer self, const std::vector<closed_window>& closed);
/// One window of this shard or of its children, as far as the parent keeps up: the newest takes the place of one that
/// still waits.
void send_up(pointer self, message<messages::shard_window> window);

} // namespace dynamix::actors::sharding
