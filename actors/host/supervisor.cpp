#include "actors/host/supervisor.hpp"

#include "actors/handlers.hpp"
#include "storage/json_text.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace dynamix::actors {

namespace {

using supervisor_pointer = caf::stateful_actor<supervisor_state>*;

void start_child(supervisor_pointer self, std::size_t index) {
  auto& child = self->state.children[index];
  child.actor = child.specification.start();
  self->monitor(caf::actor_cast<caf::actor>(child.actor));
}

void stop_child(supervisor_pointer self, std::size_t index, caf::exit_reason reason) {
  auto& child = self->state.children[index];
  if (!child.actor)
    return;
  // Forgotten first, so that its DOWN is not taken for a failure.
  self->send_exit(caf::actor_cast<caf::actor>(child.actor), reason);
  child.actor = nullptr;
}

void shut_down(supervisor_pointer self, const caf::error& reason) {
  for (auto index = self->state.children.size(); index-- > 0;)
    stop_child(self, index, caf::exit_reason::user_shutdown);
  self->quit(reason);
}

void give_up(supervisor_pointer self, const std::string& reason) {
  spdlog::error("supervisor_gives_up reason={}", storage::quoted(reason));
  self->state.events->failed(reason);
  shut_down(self, caf::exit_reason::unhandled_exception);
}

void child_down(supervisor_pointer self, const caf::down_msg& down) {
  auto& state = self->state;
  const auto found = std::ranges::find_if(
      state.children, [&](const auto& child) { return child.actor && child.actor->address() == down.source; });
  if (found == state.children.end())
    return;
  found->actor = nullptr;
  // Whoever is asked to end is forgotten first, so this end was asked for by nobody, however orderly its reason.
  const auto plan = state.policy->failed(static_cast<std::size_t>(found - state.children.begin()), seconds_now(self),
                                         down.reason ? to_text(down.reason) : "it ended without being asked to");
  if (plan.escalate)
    return give_up(self, plan.reason);
  spdlog::warn("restarting reason={}", storage::quoted(plan.reason));
  if (state.told)
    state.told(plan.reason);
  for (auto index = plan.restart.rbegin(); index != plan.restart.rend(); ++index)
    stop_child(self, *index, caf::exit_reason::user_shutdown);
  const bool pending = !state.to_restart.empty();
  for (const auto index : plan.restart)
    if (std::ranges::find(state.to_restart, index) == state.to_restart.end())
      state.to_restart.push_back(index);
  std::ranges::sort(state.to_restart);
  if (!pending)
    self->delayed_send(self, to_milliseconds(plan.delay_seconds), atom::restart_v);
}

void restart_children(supervisor_pointer self) {
  for (const auto index : std::exchange(self->state.to_restart, {}))
    start_child(self, index);
}

} // namespace

caf::behavior supervisor(supervisor_pointer self, supervision_options options,
                         std::vector<child_specification> children, std::shared_ptr<host_events> events,
                         std::function<void(const std::string& reason)> told) {
  install_handlers(self, supervisor_state::name);
  auto& state = self->state;
  state.events = std::move(events);
  state.told = std::move(told);
  std::vector<std::string> names;
  for (auto& child : children) {
    names.push_back(child.name);
    state.children.push_back({std::move(child), nullptr});
  }
  state.policy.emplace(options, std::move(names));
  self->set_down_handler([self](const caf::down_msg& down) { child_down(self, down); });
  self->set_exit_handler([self](const caf::exit_msg& exit) { shut_down(self, exit.reason); });
  for (std::size_t index = 0; index < state.children.size(); ++index)
    start_child(self, index);
  return {[self](atom::restart) { restart_children(self); }, [](atom::look) { return true; }};
}

bool all_answer(caf::actor_system& system, const std::vector<caf::actor>& supervisors,
                std::chrono::milliseconds patience) {
  const caf::scoped_actor self(system);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  bool all = true;
  for (const auto& each : supervisors) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    self->request(each, std::max(left, std::chrono::milliseconds(1)), atom::look_v)
        .receive([](bool) {}, [&](const caf::error&) { all = false; });
  }
  return all;
}

} // namespace dynamix::actors
