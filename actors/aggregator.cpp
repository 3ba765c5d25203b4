#include "actors/aggregator.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "messages/validation.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace dynamix::actors {

namespace {

using pointer = aggregator_local::stateful_pointer<aggregator_state>;

void write_row(pointer self, ledger_entry entry) {
  auto& options = self->state.options;
  options.run_ledger->append(
      {.at_seconds = seconds_now(self) - options.ledger_origin_seconds, .entry = std::move(entry)});
}

void pass_on(pointer self, const std::vector<messages::shard_report>& closed) {
  for (const auto& shard : closed)
    if (self->state.arbitrator && !shard.reports.empty())
      self->send(self->state.arbitrator, atom::shard_v, pack(shard));
}

/// The run is over when the last worker has gone; the arbitrator then finishes what it was sent.
void look_whether_over(pointer self) {
  auto& state = self->state;
  const bool nobody_left = state.workers.empty() && (state.stop_requested || state.members->over());
  if (state.ended || !nobody_left)
    return;
  state.ended = true;
  const bool all_succeeded = !state.farewells.empty() && state.farewells.size() == state.members->members().size() &&
                             std::ranges::all_of(state.farewells, &messages::farewell::succeeded);
  part_outcome outcome{all_succeeded, "all workers have finished"};
  if (!all_succeeded) {
    const auto lost = state.members->names(member_state::lost);
    const auto failed = std::ranges::find(state.farewells, false, &messages::farewell::succeeded);
    outcome.reason = lost != "nobody"                  ? "lost " + lost + " in mid-training"
                     : failed != state.farewells.end() ? failed->host + ": " + failed->reason
                                                       : "stopped before all workers had joined";
  }
  auto report = [self, outcome] { self->state.options.events->arbitrator_ended(outcome, self->state.farewells); };
  if (!state.arbitrator)
    return report();
  const std::chrono::milliseconds patience(state.options.timeouts.shutdown_timeout_ms);
  self->request(state.arbitrator, patience, atom::finish_v)
      .then([report](atom::finish) { report(); }, [report](const caf::error&) { report(); });
}

/// The workers that are left learn that their generation cannot go on.
void tell_closed(pointer self, const std::string& detail) {
  messages::welcome notice;
  notice.verdict = messages::welcome_verdict::generation_closed;
  notice.detail = messages::fit_text(detail);
  for (const auto& [rank, worker] : self->state.workers)
    self->send(worker, atom::closed_v, pack(notice));
}

/// Under which term the arbitrator decides from now on: above every one that a worker has obeyed.
void send_term(pointer self) {
  auto& state = self->state;
  if (state.arbitrator)
    self->send(state.arbitrator, atom::term_v, state.members->highest_term() + state.arbitrators);
}

caf::result<frame, aggregator_actor, store_actor> admit(pointer self, const frame& said, const worker_actor& caller) {
  auto& state = self->state;
  const auto hello = unpack<messages::hello>(said, "aggregator");
  if (!hello || !caller)
    return caf::sec::invalid_argument;
  const auto welcome = state.members->admit(*hello);
  if (welcome.verdict != messages::welcome_verdict::accepted) {
    spdlog::warn("refused host={} detail=\"{}\"", hello->host, welcome.detail);
    write_row(self, ledger_event{"refused", hello->host, welcome.detail});
    return {pack(welcome), aggregator_actor{}, store_actor{}};
  }
  if (hello->generation != 0)
    state.windows->resume(welcome.generation);
  state.windows->joined(welcome.rank);
  state.workers[welcome.rank] = caller;
  self->monitor(caller);
  send_term(self);
  const auto missing = state.members->awaited();
  const auto text = missing == 0 ? std::string{"all workers are here"}
                                 : fmt::format("waiting for {}", state.members->names(member_state::awaited));
  spdlog::info("joined host={} rank={} {}", hello->host, welcome.rank, text);
  write_row(self, ledger_event{hello->generation == 0 ? "joined" : "rejoined", hello->host, text});
  return {pack(welcome), aggregator_actor{aggregator_local{self}}, state.store};
}

/// Takes a worker out of everything that waits for it.
void remove(pointer self, std::uint32_t rank) {
  auto& state = self->state;
  state.workers.erase(rank);
  pass_on(self, state.windows->left(rank, seconds_now(self)));
  if (state.arbitrator)
    self->send(state.arbitrator, atom::lost_v, rank);
}

void worker_down(pointer self, const caf::down_msg& down) {
  auto& state = self->state;
  const auto found =
      std::ranges::find_if(state.workers, [&](const auto& entry) { return entry.second.address() == down.source; });
  if (found == state.workers.end())
    return;
  const auto rank = found->first;
  const auto host = state.members->members()[rank].host;
  state.members->lost(rank);
  remove(self, rank);
  const auto detail =
      fmt::format("the connection to {} broke; generation {} is closed", host, state.members->generation());
  spdlog::error("worker_lost host={} rank={} reason=\"{}\"", host, rank, to_text(down.reason));
  write_row(self, ledger_event{"lost", host, detail});
  tell_closed(self, detail);
  // Its connection alone may have broken: it gets as long to come back as a silent peer is given.
  self->delayed_send(self, std::chrono::milliseconds(state.options.timeouts.connection_timeout_ms), atom::finish_v);
}

void take_report(pointer self, const frame& received) {
  auto& state = self->state;
  auto report = unpack<messages::window_report>(received, "aggregator");
  if (!report)
    return;
  const auto before = state.windows->open_window();
  pass_on(self, state.windows->add(std::move(*report), seconds_now(self)));
  const auto open = state.windows->open_window();
  if (open != 0 && open != before)
    self->delayed_send(self, std::chrono::milliseconds(state.options.timeouts.gather_timeout_ms), atom::deadline_v,
                       open);
}

caf::result<atom::settle> settle(pointer self) {
  auto promise = self->make_response_promise<atom::settle>();
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

caf::result<atom::farewell> take_farewell(pointer self, const frame& received) {
  auto& state = self->state;
  const auto farewell = unpack<messages::farewell>(received, "aggregator");
  if (!farewell)
    return caf::sec::invalid_argument;
  if (!state.members->departed(farewell->rank, farewell->succeeded))
    return atom::farewell_v;
  state.farewells.push_back(*farewell);
  write_row(self, ledger_farewell{*farewell});
  remove(self, farewell->rank);
  if (!farewell->succeeded)
    tell_closed(self, farewell->host + " has ended: " + farewell->reason);
  // The reply goes out before this host may end. Where this arbitrator is a new one, workers that are still on their
  // way to it get the time to say farewell too.
  if (state.members->awaited() == 0)
    self->send(self, atom::finish_v);
  else
    self->delayed_send(self, std::chrono::milliseconds(state.options.timeouts.connection_timeout_ms), atom::finish_v);
  return atom::farewell_v;
}

} // namespace

aggregator_local::behavior_type aggregator(pointer self, aggregator_options options, store_actor store) {
  install_handlers(self, aggregator_state::name);
  auto& state = self->state;
  state.options = std::move(options);
  state.store = std::move(store);
  state.members.emplace(state.options.file, state.options.timeouts.heartbeat_interval_ms, state.options.generation);
  state.windows.emplace(state.options.generation);
  self->set_down_handler([self](const caf::down_msg& down) { worker_down(self, down); });
  return {
      [self](atom::report, const frame& report) { take_report(self, report); },
      [self](atom::evaluation, const frame& received) {
        if (const auto report = unpack<messages::evaluation_report>(received, "aggregator"))
          write_row(self, ledger_evaluation{*report});
      },
      [self](atom::settle) { return settle(self); },
      [self](atom::farewell, const frame& farewell) { return take_farewell(self, farewell); },
      [self](atom::hello, const frame& hello, const worker_actor& caller) { return admit(self, hello, caller); },
      [self](atom::serve, arbitrator_actor arbitrator) {
        self->state.arbitrator = std::move(arbitrator);
        ++self->state.arbitrators;
        send_term(self);
      },
      [self](atom::decide, std::uint32_t rank, const frame& decision) {
        const auto found = self->state.workers.find(rank);
        if (found != self->state.workers.end())
          self->send(found->second, atom::decide_v, decision);
      },
      [self](atom::deadline, std::uint64_t window) {
        pass_on(self, self->state.windows->deadline(window, seconds_now(self)));
      },
      [self](atom::finish) { look_whether_over(self); },
      [self](atom::stop) {
        self->state.stop_requested = true;
        look_whether_over(self);
      },
  };
}

} // namespace dynamix::actors
