#pragma once

#include "trainer/exchange.hpp"

namespace dynamix::trainer {

/// As join_exchange, over c10d's Gloo process group: ring all-reduce on TCP connections between all pairs of workers.
/// gloo_exchange.cpp is the only file that names c10d.
std::unique_ptr<exchange> join_gloo_exchange(const membership& place, store& rendezvous, clock& time);

} // namespace dynamix::trainer
