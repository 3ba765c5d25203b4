#pragma once

#include <cstdint>

namespace dynamix::trainer {

/// What somebody wants of a generation, in rising order: where its workers agree, the strongest of all wins.
enum class boundary_request : std::uint8_t {
  none,
  regroup, ///< all leave at one step, to go on in another generation
  stop,    ///< all end there
};

} // namespace dynamix::trainer
