#pragma once

#include "actors/handlers.hpp"
#include "actors/interfaces.hpp"

#include <algorithm>

namespace dynamix::actors {

/// A worker that was not taken in says hello again: after 0.1 s, and then twice as long each time up to 0.5 s.
template <class Pointer>
void greet_later(Pointer self) {
  constexpr double first_delay_seconds = 0.1;
  constexpr double longest_delay_seconds = 0.5;
  auto& delay = self->state.greeting_delay_seconds;
  delay = std::clamp(delay * 2, first_delay_seconds, longest_delay_seconds);
  self->delayed_send(self, to_milliseconds(delay), atom::greet_v);
}

} // namespace dynamix::actors
