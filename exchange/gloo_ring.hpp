#pragma once

#include "exchange/group.hpp"

namespace dynamix::exchange {

/// As `join`, over c10d's Gloo process group: ring all-reduce on TCP connections between all pairs of members.
/// gloo_ring.cpp is the only file that names c10d and Gloo, and the only one of the room that includes Torch.
std::unique_ptr<group> join_gloo_ring(const place& own, store& rendezvous, const interruption& stop);

} // namespace dynamix::exchange
