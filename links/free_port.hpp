#pragma once

#include <cstdint>

namespace dynamix::links {

/// A port of loopback that nobody listens at, below those that the kernel gives to connections, and that no other
/// process is given by this function as long as this one runs: between the choice of a port and the moment when its
/// host listens lie seconds in which another cluster on this machine could choose the same. Not the same twice. 0: none
/// is left.
std::uint16_t take_free_port();

} // namespace dynamix::links
