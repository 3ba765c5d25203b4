#pragma once

#include "actors/interfaces.hpp"

#include <caf/io/all.hpp>

#include <cstdint>
#include <string>

namespace dynamix::actors {

struct connector_options {
  std::string host; ///< whom it reaches, for messages
  std::string address;
  std::uint16_t port = 0;
  std::uint32_t probe_timeout_ms = 1000;
  double first_delay_seconds = 0.1; ///< between attempts; doubles up to the longest
  double longest_delay_seconds = 2;
};

/// Keeps a connection to one gateway:
///
///     attempting --TCP probe answered--> connecting --gateway reached--> connected
///         ^            |no                    |no                          |DOWN
///         |            v                      v                            v
///         +------- after a delay <------------+<---------------------------+
///
/// Runs detached, since connecting blocks. The probe comes first because one connect to a black hole would block every other
/// connect of the process for minutes.
struct connector_state {
  static constexpr const char* name = "connector";
  connector_options options;
  worker_local worker;
  double delay_seconds = 0;
  std::uint64_t attempts = 0;
};

connector_actor::behavior_type connector(connector_actor::stateful_pointer<connector_state> self, connector_options options,
                                         worker_local worker);

/// True if something accepts TCP connections there. Blocks for at most the time-out.
bool probe_tcp(const std::string& address, std::uint16_t port, std::uint32_t timeout_ms);

} // namespace dynamix::actors
