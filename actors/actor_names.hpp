#pragma once

namespace dynamix::actors::actor_name {

/// Of those that other hosts talk to: what the guard of links knows a message's receiver by.
inline constexpr const char* gateway = "gateway";
inline constexpr const char* aggregator = "aggregator";
inline constexpr const char* worker = "worker";
inline constexpr const char* store = "store";

} // namespace dynamix::actors::actor_name
