#include "actors/aggregator.hpp"

#include "actors/aggregator_members.hpp"
#include "actors/aggregator_tree.hpp"
#include "actors/handlers.hpp"
#include "actors/hub.hpp"

#include <spdlog/spdlog.h>

namespace dynamix::actors {

namespace {

using aggregating::pointer;

/// Stores are known to other hosts, so they do not end by themselves.
void leave(pointer self, const caf::exit_msg& exit) {
  for (const auto& store : {self->state.store, self->state.store_before})
    if (store)
      self->send_exit(store, caf::exit_reason::user_shutdown);
  self->quit(exit.reason);
}

void tick(pointer self) {
  const auto interval = self->state.options.timeouts.beat_interval_ms / 2;
  self->delayed_send(self, std::chrono::milliseconds(interval), atom::tick_v);
  aggregating::look_after_members(self);
}

} // namespace

aggregator_local::behavior_type aggregator(pointer self, aggregator_options options) {
  install_handlers(self, aggregator_state::name);
  auto& state = self->state;
  state.options = std::move(options);
  state.members.emplace(state.options.file, aggregating::membership_timeouts(state.options),
                        state.options.before ? state.options.before->generation.generation : 0,
                        aggregating::finished_before(state.options));
  self->set_down_handler([self](const caf::down_msg& down) { aggregating::worker_down(self, down); });
  self->set_exit_handler([self](const caf::exit_msg& exit) { leave(self, exit); });
  self->send(self, atom::tick_v);
  return {
      [self](atom::report, const message<messages::window_report>& report) {
        take_part<messages::window_report>(self, report, aggregating::pass_on);
      },
      [self](atom::evaluation, const message<messages::evaluation_report>& received) {
        if (const auto report = unpack<messages::evaluation_report>(received, "aggregator"))
          aggregating::write_row(self, ledger::evaluation{*report});
      },
      [self](atom::beat, const message<messages::heartbeat>& received) {
        aggregating::take_beat(self, received);
        return atom::beat_v;
      },
      [self](atom::settle) { return settle(self); },
      [self](atom::farewell, const message<messages::farewell>& farewell) {
        return aggregating::take_farewell(self, farewell);
      },
      [self](atom::hello, const message<messages::hello>& hello, const worker_actor& caller) {
        return aggregating::admit(self, hello, caller);
      },
      [self](atom::attach, const message<messages::shard_hello>& hello, const child_actor& child) {
        return aggregating::take_child(self, hello, child);
      },
      [self](atom::relay, const message<messages::hello>& hello, const child_actor& child) {
        return aggregating::take_relayed(self, hello, child);
      },
      [self](atom::absent, const message<messages::absence>& absence) { aggregating::take_absence(self, absence); },
      [self](atom::beats, const message<messages::beat_summary>& summary) {
        aggregating::take_summary(self, summary);
        return atom::beats_v;
      },
      [self](atom::window, const message<messages::shard_window>& window) {
        take_part<messages::shard_window>(self, window, aggregating::pass_on);
        return atom::window_v;
      },
      [self](atom::guide, const message<messages::guidance>& guidance) { aggregating::guide(self, guidance); },
      [self](atom::policy, const message<messages::policy_version>& version) {
        aggregating::publish_to_children(self, version);
      },
      [self](atom::look) { aggregating::look_after_members(self); },
      [self](atom::tick) { tick(self); },
      [self](atom::serve, arbitrator_actor arbitrator) {
        self->state.arbitrator = std::move(arbitrator);
        ++self->state.terms;
        aggregating::raise_term(self);
      },
      [self](atom::decide, std::uint32_t rank, const message<messages::decision>& decision) {
        const auto found = self->state.workers.find(rank);
        if (found != self->state.workers.end())
          self->send(found->second, atom::decide_v, decision);
      },
      [self](atom::kept, std::uint64_t token, bool kept) { self->state.kept.settle(token, kept); },
      [self](atom::deadline, std::uint64_t window) { end_gathering(self, window, aggregating::pass_on); },
      [self](atom::stop) { aggregating::stop(self); },
  };
}

} // namespace dynamix::actors
