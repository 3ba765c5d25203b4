#pragma once

/// What an aggregator and a shard do alike: both gather reports, and tell an arbitrator of what they have gathered.

#include "actors/gather.hpp"
#include "actors/handlers.hpp"
#include "actors/interfaces.hpp"
#include "actors/packing.hpp"

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace dynamix::actors {

/// Hands closed windows on.
template <class Pointer>
using window_sink = void (*)(Pointer self, const std::vector<closed_window>& closed);

/// A worker's report or a shard's window.
template <class Part, class Pointer>
void take_part(Pointer self, const message<Part>& received, window_sink<Pointer> pass_on) {
  auto& state = self->state;
  auto part = unpack<Part>(received, state.name);
  if (!part || !state.windows)
    return;
  if (part->generation == state.windows->generation() && state.windows->is_too_far(part->window))
    return spdlog::warn("report_refused actor={} error=\"window {} is too far ahead\"", state.name, part->window);
  const auto before = state.windows->open_window();
  pass_on(self, state.windows->add(*part, seconds_now(self)));
  const auto open = state.windows->open_window();
  if (open != 0 && open != before)
    self->delayed_send(self, std::chrono::milliseconds(state.options.timeouts.gather_timeout_ms), atom::deadline_v,
                       open);
}

/// The window waits no longer for what is still out.
template <class Pointer>
void end_gathering(Pointer self, std::uint64_t window, window_sink<Pointer> pass_on) {
  if (auto& windows = self->state.windows)
    pass_on(self, windows->deadline(window, seconds_now(self)));
}

/// Answers once the arbitrator, if there is one, has decided all that it was given.
template <class Pointer>
caf::result<atom::settle> settle(Pointer self) {
  auto promise = self->template make_response_promise<atom::settle>();
  if (!self->state.arbitrator) {
    promise.deliver(atom::settle_v);
    return promise;
  }
  const std::chrono::milliseconds patience(self->state.options.timeouts.request_timeout_ms);
  self->request(self->state.arbitrator, patience, atom::finish_v)
      .then([promise](atom::finish) mutable { promise.deliver(atom::settle_v); },
            [promise](const caf::error&) mutable { promise.deliver(atom::settle_v); });
  return promise;
}

} // namespace dynamix::actors
