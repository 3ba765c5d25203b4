/// What a worker says of itself.

#include "actors/worker.hpp"
#include "messages/leave.hpp"
#include "messages/validation.hpp"

#include <algorithm>

namespace dynamix::actors {

messages::hello worker_state::hello() const {
  auto said = identity;
  if (!run)
    return said;
  said.generation = run->newest().generation;
  said.last_decision = run->decisions().newest();
  said.training = now == phase::training;
  if (said.training)
    said.members = run->newest().members;
  said.steps = said.attempted_steps = run->steps();
  if (!said.training && said.generation > 0)
    said.attempted_steps = std::max(said.steps, run->outcome().attempted_steps);
  return said;
}

bool worker_state::known(bool training) const {
  return run && known_generation == run->newest().generation && known_training == training;
}

messages::heartbeat worker_state::heartbeat() const {
  return {.rank = run ? run->rank() : 0,
          .incarnation = identity.incarnation,
          .generation = run && now == phase::training ? run->newest().generation : 0,
          .steps = run ? run->steps() : 0};
}

messages::farewell worker_state::farewell() const {
  const auto* reason = left_because.empty() ? "training never began" : left_because.c_str();
  messages::farewell said{.host = options.host, .reason = reason, .decisions = {}, .incarnation = identity.incarnation};
  if (!run)
    return said;
  const auto outcome = run->outcome();
  said.rank = run->rank();
  said.succeeded = outcome.succeeded() && left_because.empty();
  said.reason = messages::fit_text(left_because.empty() ? outcome.reason : left_because);
  if (said.succeeded && outcome.how == trainer::ending::stopped)
    said.reason = messages::stopped_reason;
  said.steps = outcome.steps;
  said.samples = outcome.samples;
  said.epochs = outcome.epochs;
  said.wall_seconds = outcome.wall_seconds;
  said.final_accuracy = outcome.final_accuracy;
  said.seconds_to_target = outcome.seconds_to_target;
  said.parameter_checksum = outcome.parameter_checksum;
  said.control_seconds = run->control_seconds();
  said.telemetry_seconds = telemetry_seconds;
  said.decisions = run->decisions().counts();
  return said;
}

} // namespace dynamix::actors
