#include "actors/shard.hpp"

#include "actors/handlers.hpp"
#include "actors/hub.hpp"
#include "actors/packing.hpp"
#include "actors/shard_relay.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace dynamix::actors {

namespace {

using sharding::pointer;

constexpr double attach_delay_seconds = 0.1;
constexpr std::uint32_t attaches_before_the_next_place = 5;
constexpr std::uint64_t ticks_a_summary = 2; ///< of signs of life, to the parent: half of what a host may miss

void attach(pointer self);

void attach_later(pointer self) {
  auto& state = self->state;
  if (++state.refused_attaches % attaches_before_the_next_place == 0)
    self->send(state.connector, atom::redirect_v, std::string{});
  else
    self->delayed_send(self, to_milliseconds(attach_delay_seconds), atom::greet_v);
}

void attached(pointer self, const messages::welcome& welcome, const parent_actor& parent) {
  auto& state = self->state;
  if (state.was_attached && !(state.direct.empty() && state.through.empty())) {
    // Its supervisor starts it again, and every worker says anew where it stands.
    spdlog::warn("parent_is_back the shard begins anew with its workers");
    return self->quit(caf::exit_reason::unreachable);
  }
  state.was_attached = true;
  state.refused_attaches = 0;
  state.parent = parent;
  state.windows_up.reset();
  self->monitor(parent);
  state.term = std::max(state.term, welcome.term);
  if (state.arbitrator)
    self->send(state.arbitrator, atom::term_v, state.term);
  spdlog::info("attached parent={} term={}", state.options.parent, state.term);
}

void attach(pointer self) {
  auto& state = self->state;
  if (!state.gateway || state.parent || std::exchange(state.attaching, true))
    return;
  const auto& file = state.options.file;
  const messages::shard_hello hello{.cluster = file.name,
                                    .cluster_digest = file.digest(),
                                    .host = state.options.host,
                                    .node = state.options.host,
                                    .parent = state.options.parent,
                                    .incarnation = state.options.incarnation,
                                    .heartbeat_interval_ms = state.options.timeouts.heartbeat_interval_ms};
  const std::chrono::milliseconds patience(state.options.timeouts.request_timeout_ms);
  self->request(state.gateway, patience, atom::attach_v, pack(hello), child_actor{shard_local{self}})
      .then(
          [self](const message<messages::welcome>& answer, const parent_actor& parent) {
            self->state.attaching = false;
            const auto welcome = unpack<messages::welcome>(answer, "shard");
            if (welcome && welcome->verdict == messages::welcome_verdict::accepted && parent)
              return attached(self, *welcome, parent);
            if (welcome)
              spdlog::warn("attach_refused detail=\"{}\"", welcome->detail);
            attach_later(self);
          },
          [self](const caf::error&) {
            self->state.attaching = false;
            attach_later(self);
          });
}

void detach(pointer self, const char* why) {
  auto& state = self->state;
  if (!state.parent)
    return;
  spdlog::warn("parent_lost reason=\"{}\" the shard decides on", why);
  self->demonitor(state.parent.address());
  state.parent = nullptr;
}

void report_absence(pointer self, const messages::absence& gone) {
  if (self->state.parent)
    self->send(self->state.parent, atom::absent_v, pack(gone));
}

void went_down(pointer self, const caf::down_msg& down) {
  auto& state = self->state;
  if (state.parent && down.source == state.parent.address()) {
    detach(self, "it is gone");
    return self->send(self, atom::greet_v);
  }
  const auto child =
      std::ranges::find_if(state.children, [&](const auto& one) { return one.actor.address() == down.source; });
  if (child != state.children.end()) {
    spdlog::warn("shard_lost host={}", child->host);
    std::vector<std::uint32_t> ranks;
    for (const auto& [rank, through] : state.through)
      if (through == down.source)
        ranks.push_back(rank);
    state.children.erase(child);
    for (const auto rank : ranks)
      sharding::forget(self, rank); // they come again through others
    return;
  }
  const auto worker =
      std::ranges::find_if(state.direct, [&](const auto& one) { return one.second.address() == down.source; });
  if (worker == state.direct.end())
    return;
  const auto rank = worker->first;
  const auto incarnation = state.workers.left(rank);
  sharding::forget(self, rank);
  if (incarnation)
    report_absence(self, {.rank = rank, .incarnation = *incarnation, .detail = "the connection to it broke"});
}

/// A beat of the generation that is gathered says how far it is.
void follow_progress(pointer self, const messages::heartbeat& sign) {
  auto& state = self->state;
  if (state.windows && sign.generation == state.windows->generation())
    state.windows->reached(sign.steps / state.options.file.arbitrator.window_steps + 1);
}

caf::result<atom::beat> take_beat(pointer self, const message<messages::heartbeat>& received) {
  const auto sign = unpack<messages::heartbeat>(received, "shard");
  if (!sign)
    return caf::sec::invalid_argument;
  if (self->state.workers.beat(*sign, seconds_now(self))) {
    follow_progress(self, *sign);
    return atom::beat_v;
  }
  // It looks for another place, and the root sends it to its own.
  sharding::forget(self, sign->rank);
  return caf::sec::request_receiver_down;
}

void end(pointer self, bool succeeded, const std::string& reason) {
  auto& state = self->state;
  if (std::exchange(state.ended, true))
    return;
  for (const auto& child : state.children)
    send_order(self, child.actor, {.leaving = {}, .finished = true, .succeeded = succeeded, .reason = reason});
  spdlog::info("run_over reason=\"{}\"", reason);
  if (state.options.events)
    state.options.events->arbitrator_ended({succeeded, reason}, {});
}

void tick(pointer self) {
  auto& state = self->state;
  self->delayed_send(self, std::chrono::milliseconds(state.options.timeouts.beat_interval_ms), atom::tick_v);
  for (const auto& gone : state.workers.find_silent(seconds_now(self)))
    if (state.direct.contains(gone.rank)) {
      spdlog::error("worker_lost rank={} reason=\"{}\"", gone.rank, gone.detail);
      if (state.windows)
        sharding::pass_on(self, state.windows->left(gone.rank, seconds_now(self)));
      report_absence(self, gone);
    }
  if (!state.parent) {
    if (state.farewells > 0 && state.workers.empty())
      end(self, true, "all workers have finished");
    return;
  }
  if (++state.ticks % ticks_a_summary != 0)
    return;
  const std::chrono::milliseconds patience(state.options.timeouts.silence_ms);
  self->request(state.parent, patience, atom::beats_v,
                pack(messages::beat_summary{.node = state.options.host, .beats = state.workers.take_beats()}))
      .then([](atom::beats) {},
            [self, asked = state.parent](const caf::error&) {
              if (self->state.parent != asked)
                return;
              detach(self, "it does not answer");
              self->send(self->state.connector, atom::redirect_v, std::string{});
            });
}

void take_beats(pointer self, const message<messages::beat_summary>& received) {
  const auto summary = unpack<messages::beat_summary>(received, "shard");
  if (!summary)
    return;
  for (const auto& sign : summary->beats)
    if (self->state.workers.beat(sign, seconds_now(self)))
      follow_progress(self, sign);
}

void relay_evaluation(pointer self, const message<messages::evaluation_report>& report) {
  if (self->state.parent)
    self->send(self->state.parent, atom::evaluation_v, report);
}

void relay_absence(pointer self, const message<messages::absence>& absence) {
  if (const auto gone = unpack<messages::absence>(absence, "shard")) {
    sharding::forget(self, gone->rank);
    report_absence(self, *gone);
  }
}

void relay_policy(pointer self, const message<messages::policy_version>& version) {
  auto& state = self->state;
  state.policy = version;
  if (state.arbitrator)
    self->send(state.arbitrator, atom::policy_v, version);
  for (const auto& child : state.children)
    self->send(child.actor, atom::policy_v, version);
}

void reach(pointer self, const gateway_actor& gateway) {
  self->state.gateway = gateway;
  self->state.attaching = false;
  attach(self);
}

/// One that was started again is told what the one before it was.
void serve(pointer self, const shard_arbitrator_actor& arbitrator) {
  auto& state = self->state;
  state.arbitrator = arbitrator;
  self->send(arbitrator, atom::term_v, state.term);
  if (state.policy)
    self->send(arbitrator, atom::policy_v, *state.policy);
  if (state.placement)
    self->send(arbitrator, atom::place_v, *state.placement);
}

void hand_out(pointer self, std::uint32_t rank, const message<messages::decision>& decision) {
  const auto found = self->state.direct.find(rank);
  if (found != self->state.direct.end())
    self->send(found->second, atom::decide_v, decision);
}

void take_order(pointer self, const message<messages::shard_order>& received) {
  auto& state = self->state;
  const auto order = unpack<messages::shard_order>(received, "shard");
  if (!order)
    return;
  if (order->term > state.term) {
    state.term = order->term;
    if (state.arbitrator)
      self->send(state.arbitrator, atom::term_v, state.term);
  }
  for (const auto rank : order->leaving)
    if (state.direct.contains(rank))
      state.workers.send_away(rank);
  if (order->finished)
    return end(self, order->succeeded, order->reason);
  for (const auto& child : state.children)
    self->send(child.actor, atom::order_v, received);
}

} // namespace

shard_local::behavior_type shard(pointer self, shard_options options) {
  install_handlers(self, shard_state::name);
  auto& state = self->state;
  state.options = std::move(options);
  const auto& timeouts = state.options.timeouts;
  state.workers = roster(timeouts.silence_ms / 1000.0, timeouts.beat_interval_ms / 1000.0);
  state.began_seconds = seconds_now(self);
  self->set_down_handler([self](const caf::down_msg& down) { went_down(self, down); });
  self->send(self, atom::tick_v);
  return {
      // Of a worker.
      [self](atom::hello, const message<messages::hello>& hello, const worker_actor& caller) {
        return sharding::take_hello(self, hello, caller);
      },
      [self](atom::report, const message<messages::window_report>& report) {
        take_part<messages::window_report>(self, report, sharding::pass_on);
      },
      [self](atom::evaluation, const message<messages::evaluation_report>& report) { relay_evaluation(self, report); },
      [self](atom::beat, const message<messages::heartbeat>& sign) { return take_beat(self, sign); },
      [self](atom::settle) { return settle(self); },
      [self](atom::farewell, const message<messages::farewell>& farewell) {
        return sharding::relay_farewell(self, farewell);
      },
      // Of a child.
      [self](atom::attach, const message<messages::shard_hello>& hello, const child_actor& child) {
        return sharding::take_child(self, hello, child);
      },
      [self](atom::relay, const message<messages::hello>& hello, const child_actor& child) {
        return sharding::relay_hello(self, hello, child);
      },
      [self](atom::absent, const message<messages::absence>& absence) { relay_absence(self, absence); },
      [self](atom::beats, const message<messages::beat_summary>& summary) {
        take_beats(self, summary);
        return atom::beats_v;
      },
      [self](atom::window, const message<messages::shard_window>& window) {
        take_part<messages::shard_window>(self, window, sharding::pass_on);
        return atom::window_v;
      },
      // Of the parent.
      [self](atom::place, const message<messages::recipients>& to, const message<messages::placement>& placement,
             const store_actor& store) { sharding::relay_placement(self, to, placement, store); },
      [self](atom::closed, const message<messages::recipients>& to,
             const message<messages::generation_notice>& notice) { sharding::relay_notice(self, to, notice); },
      [self](atom::decide, const message<messages::recipients>& to, const message<messages::decision>& decision) {
        sharding::relay_decisions(self, to, decision);
      },
      [self](atom::guide, const message<messages::guidance>& guidance) { sharding::relay_guidance(self, guidance); },
      [self](atom::policy, const message<messages::policy_version>& version) { relay_policy(self, version); },
      [self](atom::order, const message<messages::shard_order>& order) { take_order(self, order); },
      [self](atom::stop) { sharding::relay_stop(self); },
      // Of this host.
      [self](atom::serve, connector_actor connector) { self->state.connector = std::move(connector); },
      [self](atom::connected, const gateway_actor& gateway) { reach(self, gateway); },
      [self](atom::lost) {
        self->state.gateway = nullptr;
        detach(self, "its host is gone");
      },
      [self](atom::greet) { attach(self); },
      [self](atom::tick) { tick(self); },
      [self](atom::serve, const shard_arbitrator_actor& arbitrator) { serve(self, arbitrator); },
      [self](atom::decide, std::uint32_t rank, const message<messages::decision>& decision) {
        hand_out(self, rank, decision);
      },
      [self](atom::upstream, const message<messages::shard_window>& window) { sharding::send_up(self, window); },
      [self](atom::deadline, std::uint64_t window) { end_gathering(self, window, sharding::pass_on); },
  };
}

} // namespace dynamix::actors
