#pragma once

/// The aggregator's part at the root of a tree of arbitrators: its children, and its workers through them.

#include "actors/aggregator.hpp"

namespace dynamix::actors::aggregating {

using pointer = aggregator_local::stateful_pointer<aggregator_state>;

/// Of a tree: a shard finds out who is silent; the root waits for as long again, in which a lost shard's workers find
/// another.
cluster::timeouts membership_timeouts(const aggregator_options& options);

caf::result<message<messages::welcome>, parent_actor>
take_child(pointer self, const message<messages::shard_hello>& said, const child_actor& child);
caf::result<message<messages::welcome>> take_relayed(pointer self, const message<messages::hello>& said,
                                                     const child_actor& child);
void take_absence(pointer self, const message<messages::absence>& received);
void take_summary(pointer self, const message<messages::beat_summary>& received);
/// A child that is silent is late: nobody is sent to it.
void look_after_children(pointer self);
void child_down(pointer self, const caf::down_msg& down);

void place_through_children(pointer self, const std::vector<std::uint32_t>& ranks);
void notify_through_children(pointer self,
                             const std::vector<std::pair<std::uint32_t, messages::generation_notice>>& notices);
void guide(pointer self, const message<messages::guidance>& guidance);
void publish_to_children(pointer self, const message<messages::policy_version>& version);
/// Nothing where there are none.
void tell_term(pointer self);
void stop_children(pointer self);
void finish_children(pointer self, const part_outcome& outcome);

} // namespace dynamix::actors::aggregating
