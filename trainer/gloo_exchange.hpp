#pragma once

#include "trainer/exchange.hpp"

namespace dynamix::trainer {

/// As join_exchange, over c10d's Gloo process group: ring all-reduce on TCP connections between all pairs of workers.
/// gloo_exchange and gloo_rendezvous are the only files that name c10d and Gloo.
std::unique_ptr<exchange> join_gloo_exchange(const membership& place, store& rendezvous, clock& time,
                                             const interruption& stop);

} // namespace dynamix::trainer
