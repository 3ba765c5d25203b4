#pragma once

#include <cstdint>

namespace dynamix::session {

/// So many windows without a decision, and a global batch below the initial one grows back to it by itself.
inline constexpr std::uint64_t undecided_windows = 4;

} // namespace dynamix::session
