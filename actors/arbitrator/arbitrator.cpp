#include "actors/arbitrator/arbitrator.hpp"

#include "actors/arbitrator/deciding_rows.hpp"
#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "storage/json_text.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace dynamix::actors {

namespace {

using arbitrator_pointer = arbitrator_actor::stateful_pointer<arbitrator_state>;

/// An update of the policy may take a while on a busy machine; training does not wait for it.
constexpr std::chrono::seconds learn_timeout{60};

void write_row(arbitrator_pointer self, ledger::entry entry) {
  auto& options = self->state.options;
  if (options.run_ledger)
    options.run_ledger->append(
        {.at_seconds = seconds_now(self) - options.ledger_origin_seconds, .entry = std::move(entry)});
}

void warn_unless_kept(const std::string& problem) {
  if (!problem.empty())
    spdlog::warn("parameters_not_kept problem={} the run goes on, its decisions cannot be replayed",
                 storage::quoted(problem));
}

/// Does it once the journal keeps it, never if it does not.
void keep(arbitrator_pointer self, std::uint64_t term, journal_content content, std::function<void()> action) {
  auto& state = self->state;
  state.kept.keep(state.options.journal.get(), term, std::move(content), std::move(action),
                  [handle = arbitrator_actor{self}](std::uint64_t token, bool kept) {
                    caf::anon_send(handle, atom::kept_v, token, kept);
                  });
}

/// Other replicas must be able to go on from here.
void keep_policy(arbitrator_pointer self, const messages::policy_version& version) {
  auto& state = self->state;
  if (!state.options.journal || !state.learner)
    return;
  self->request(state.learner, learn_timeout, atom::save_v)
      .then(
          [self, version](const std::vector<std::uint8_t>& checkpoint) {
            keep(self, self->state.judge->term(),
                 replication::policy_published{.policy = version, .checkpoint = checkpoint}, [] {});
          },
          [](const caf::error& error) { spdlog::warn("learner_not_saved error={}", storage::quoted(to_text(error))); });
}

void adopt(arbitrator_pointer self, const message<messages::policy_version>& published) {
  const auto version = unpack<messages::policy_version>(published, "arbitrator");
  auto& state = self->state;
  if (state.options.seat == arbitrator_seat::root)
    self->send(state.aggregator, atom::policy_v, published);
  if (!version || version->version <= state.judge->controller().version())
    return;
  const auto error = state.judge->adopt(*version);
  if (!error.empty()) {
    spdlog::error("policy_refused version={} error={}", version->version, storage::quoted(error));
    return;
  }
  std::string problem;
  if (state.options.run_ledger)
    write_row(self, describe_policy(*version, state.options.archive.get(), problem));
  warn_unless_kept(problem);
  keep_policy(self, *version);
}

void learn(arbitrator_pointer self, const std::vector<messages::trajectory>& rollout) {
  auto& state = self->state;
  if (rollout.empty() || !state.learner || state.learning)
    return;
  std::vector<message<messages::trajectory>> trajectories;
  for (const auto& trajectory : rollout)
    trajectories.push_back(pack_checked(trajectory));
  state.learning = true;
  self->request(state.learner, learn_timeout, atom::learn_v, std::move(trajectories))
      .then(
          [self](const message<messages::policy_version>& published) {
            self->state.learning = false;
            adopt(self, published);
          },
          [self](const caf::error& error) {
            self->state.learning = false;
            spdlog::warn("learner_failed error={} the policy stays as it is", storage::quoted(to_text(error)));
          });
}

/// What workers are measured with, how they exchange gradients, and what has gone wrong on them, are events, not parts
/// of every row.
void tell_reported(arbitrator_pointer self, policy::judged_window& window) {
  for (auto& worker : window.workers) {
    const auto tell = [&](ledger::event_kind kind, const std::string& text, const std::string& host) {
      if (!text.empty() && !worker.stale)
        write_row(self, ledger::event{kind, host, text});
    };
    tell(ledger::event_kind::telemetry, std::exchange(worker.report.telemetry_choice, {}), worker.report.host);
    tell(ledger::event_kind::exchange, std::exchange(worker.report.exchange_choice, {}), "");
    tell(ledger::event_kind::warning, std::exchange(worker.report.warning, {}), worker.report.host);
  }
}

/// A worker whose steps are not the others' is told of once a generation.
void tell_doubts(arbitrator_pointer self, std::uint64_t generation, const std::vector<policy::doubted_steps>& doubted) {
  for (const auto& one : doubted) {
    if (std::exchange(self->state.doubted[one.rank], generation) == generation)
      continue;
    spdlog::warn("steps_doubted host={} rank={} reason={}", one.host, one.rank, storage::quoted(one.reason));
    write_row(self, ledger::event{ledger::event_kind::warning, one.host, one.reason});
  }
}

/// What shards have decided of one window: for the ledger, the learner and their next decisions.
void join(arbitrator_pointer self, const message<messages::shard_window>& received) {
  auto& state = self->state;
  const auto window = unpack<messages::shard_window>(received, "arbitrator");
  if (!window || state.options.seat != arbitrator_seat::root)
    return;
  auto verdict = state.judge->join(*window);
  self->send(state.aggregator, atom::guide_v, pack_checked(verdict.known));
  tell_reported(self, verdict.window);
  write_row(self, std::move(verdict.window));
  ledger::tree by{
      .known = std::move(verdict.known), .accounts = window->accounts, .votes = {}, .untrained = window->untrained};
  for (const auto& choice : window->choices)
    by.votes.push_back(choice.vote);
  write_row(self, std::move(by));
  learn(self, verdict.rollout);
}

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void send_decisions(arbitrator_pointer self, const std::vector<messages::decision>& decisions) {
  for (const auto& decision : decisions)
    self->send(self->state.aggregator, atom::decide_v, decision.rank, pack(decision));
}

/// Waits for nobody; the root hears of it.
void decide_own(arbitrator_pointer self, const messages::shard_report& own) {
  const auto began = std::chrono::steady_clock::now();
  auto verdict = self->state.judge->decide(own);
  tell_doubts(self, own.generation, verdict.doubted);
  send_decisions(self, verdict.decisions);
  verdict.window.decide_seconds = seconds_since(began);
  verdict.window.accounts.front().arbitrator = self->state.options.incarnation;
  self->send(self->state.aggregator, atom::upstream_v, pack(verdict.window));
}

void decide_for_all(arbitrator_pointer self, const messages::shard_report& all) {
  auto& state = self->state;
  const auto began = std::chrono::steady_clock::now();
  auto verdict = state.judge->consider(all);
  tell_reported(self, verdict.window);
  tell_doubts(self, all.generation, verdict.doubted);
  verdict.window.decide_seconds = seconds_since(began);
  // Before the decisions leave: the trace bounds clocks by what came before and after it.
  const double decided_seconds = seconds_now(self) - state.options.ledger_origin_seconds;
  auto publish = [self, decided_seconds, window = verdict.window, decisions = verdict.decisions] {
    send_decisions(self, decisions);
    self->state.options.run_ledger->append({.at_seconds = decided_seconds, .entry = window});
  };
  if (verdict.decisions.empty())
    publish();
  else
    keep(self, verdict.window.key.term,
         replication::window_decided{.window = all.window, .decisions = verdict.decisions}, std::move(publish));
  learn(self, verdict.rollout);
}

void decide(arbitrator_pointer self, const message<messages::shard_report>& received) {
  const auto window = unpack<messages::shard_report>(received, "arbitrator");
  const auto seat = self->state.options.seat;
  if (window && seat == arbitrator_seat::alone)
    decide_for_all(self, *window);
  else if (window && seat == arbitrator_seat::shard)
    decide_own(self, *window);
}

/// Answers once all that was decided has been sent, or will never be.
caf::result<atom::finish> finish(arbitrator_pointer self) {
  if (self->state.kept.empty())
    return atom::finish_v;
  return self->state.finishing.emplace_back(self->make_response_promise<atom::finish>());
}

void settle(arbitrator_pointer self, std::uint64_t token, bool kept) {
  auto& state = self->state;
  state.kept.settle(token, kept);
  if (!state.kept.empty())
    return;
  for (auto& promise : std::exchange(state.finishing, {}))
    promise.deliver(atom::finish_v);
}

} // namespace

arbitrator_actor::behavior_type arbitrator(arbitrator_pointer self, arbitrator_options options,
                                           aggregator_local aggregator, learner_actor learner) {
  install_handlers(self, arbitrator_state::name);
  auto& state = self->state;
  state.options = std::move(options);
  state.aggregator = std::move(aggregator);
  state.learner = std::move(learner);
  state.judge.emplace(*state.options.file, policy::make_controller(*state.options.file, state.options.parameters));
  std::string problem;
  if (state.options.seat != arbitrator_seat::shard)
    write_row(self,
              describe_deciding(*state.options.file, state.options.parameters, state.options.archive.get(), problem));
  warn_unless_kept(problem);
  self->send(state.aggregator, atom::serve_v, arbitrator_actor{self});
  // One that was restarted takes up the policy where it stood.
  if (state.learner)
    self->request(state.learner, std::chrono::milliseconds(state.options.timeouts.request_timeout_ms), atom::current_v)
        .then(
            [self](const message<messages::policy_version>& published) { adopt(self, published); },
            [](const caf::error& error) { spdlog::warn("learner_silent error={}", storage::quoted(to_text(error))); });
  return {
      [self](atom::shard, const message<messages::shard_report>& window) { decide(self, window); },
      [self](atom::window, const message<messages::shard_window>& window) { join(self, window); },
      [self](atom::term, std::uint64_t term) { self->state.judge->raise_term(term); },
      [self](atom::lost, std::uint32_t rank) { self->state.judge->forget(rank); },
      [self](atom::kept, std::uint64_t token, bool kept) { settle(self, token, kept); },
      [self](atom::finish) { return finish(self); },
      [self](atom::guide, const message<messages::guidance>& received) {
        if (const auto* known = unpack(received, "arbitrator"))
          self->state.judge->follow(*known);
      },
      [self](atom::policy, const message<messages::policy_version>& version) { adopt(self, version); },
      [self](atom::place, const message<messages::placement>& received) {
        if (const auto* place = unpack(received, "arbitrator"))
          self->state.judge->enter(place->generation, place->members);
      },
  };
}

} // namespace dynamix::actors
