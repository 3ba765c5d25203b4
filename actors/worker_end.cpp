#include "actors/worker_end.hpp"

#include "actors/handlers.hpp"
#include "actors/leave.hpp"
#include "actors/packing.hpp"
#include "messages/leave.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <functional>
#include <utility>

namespace dynamix::actors::working {

namespace {

using phase = worker_state::phase;

/// The farewell as it stands now; `then` follows when it has been heard, or cannot be.
void say_farewell(pointer self, std::function<void()> then) {
  auto& state = self->state;
  state.run->decisions().close();
  const std::chrono::milliseconds patience(2 * state.options.timeouts.request_timeout_ms);
  self->request(state.telemetry, patience, atom::farewell_v, pack(state.farewell()))
      .then(
          [self, then](const frame& completed) {
            if (const auto farewell = unpack<messages::farewell>(completed, "worker"))
              self->state.telemetry_seconds = farewell->telemetry_seconds;
            then();
          },
          [then](const caf::error&) { then(); });
}

void end_as_trained(pointer self) {
  const auto outcome = self->state.run->outcome();
  end(self, outcome.succeeded(), outcome.reason);
}

/// In no generation any more. The others wait for nothing but the farewell, so it comes before the checkpoint.
void part(pointer self) {
  auto& state = self->state;
  state.now = phase::leaving;
  const auto reason =
      fmt::format("{}its host was asked to end, after step {}", messages::leave_mark, state.run->steps());
  state.left_because = reason;
  spdlog::info("leaving steps={}", state.run->steps());
  say_farewell(self, [self, reason] { self->state.run->finish(reason); });
}

} // namespace

void interrupt(pointer self, const std::string& reason) {
  self->state.watch->interrupted(seconds_now(self));
  self->state.run->interrupt(reason);
}

void end(pointer self, bool succeeded, const std::string& reason) {
  auto& state = self->state;
  if (state.now == phase::ended)
    return;
  state.now = phase::ended;
  state.events->worker_ended({succeeded, reason}, state.farewell(),
                             state.run ? state.run->evaluations() : std::vector<messages::evaluation_report>{},
                             state.run ? state.run->outcome().checkpoint : std::string{});
}

/// First settles, so that decisions under way arrive before they are counted for the last time.
void conclude(pointer self, const trainer::outcome& outcome) {
  auto& state = self->state;
  if (!state.left_because.empty()) {
    // The thread has written its checkpoint, or says why not.
    const bool known = outcome.reason.starts_with(state.left_because);
    state.left_because = known ? outcome.reason : state.left_because + "; " + outcome.reason;
    return end(self, true, state.left_because);
  }
  state.now = phase::leaving;
  spdlog::info("training_ended succeeded={} reason=\"{}\" steps={}", outcome.succeeded(), outcome.reason,
               outcome.steps);
  auto farewell = [self] { say_farewell(self, [self] { end_as_trained(self); }); };
  self->request(state.telemetry, std::chrono::milliseconds(state.options.timeouts.request_timeout_ms), atom::settle_v)
      .then([farewell](atom::settle) { farewell(); }, [farewell](const caf::error&) { farewell(); });
}

void stop(pointer self) {
  auto& state = self->state;
  if (std::exchange(state.stop_requested, true) || state.now >= phase::leaving)
    return;
  if (!state.run)
    return end(self, false, fmt::format("{}before training began", messages::stop_mark));
  state.run->request_stop();
  if (state.now == phase::waiting)
    end_between_generations(self);
}

void leave(pointer self) {
  auto& state = self->state;
  if (state.leave_asked_seconds || state.now >= phase::leaving)
    return;
  state.leave_asked_seconds = seconds_now(self);
  if (!state.run) {
    state.left_because = fmt::format("{}its host was asked to end before it had joined", messages::leave_mark);
    return end(self, true, state.left_because);
  }
  if (state.now == phase::waiting)
    end_between_generations(self);
  else
    look_after_leave(self);
}

bool end_between_generations(pointer self) {
  auto& state = self->state;
  if (state.stop_requested)
    state.run->finish(
        fmt::format("{}{}", messages::stop_mark,
                    state.run->newest().generation == 0 ? "before training began" : "between two generations"));
  else if (state.leave_asked_seconds)
    part(self);
  return state.stop_requested || state.leave_asked_seconds;
}

void look_after_leave(pointer self) {
  auto& state = self->state;
  if (!state.leave_asked_seconds || state.now != phase::training)
    return;
  const auto next = decide_leave(seconds_now(self), *state.leave_asked_seconds, state.run->newest().members.size(),
                                 state.options.timeouts);
  if (std::exchange(state.leaving_by, next.step) == next.step)
    return;
  spdlog::info("leave generation={} next=\"{}\"", state.run->newest().generation, next.reason);
  if (next.step == leave_step::stop)
    stop(self);
  else if (next.step == leave_step::ask)
    state.run->regroup();
  else if (next.step == leave_step::drop)
    interrupt(self, "its host leaves: " + next.reason);
}

} // namespace dynamix::actors::working
