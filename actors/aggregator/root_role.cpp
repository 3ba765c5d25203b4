#include "actors/aggregator/root_role.hpp"

#include "actors/aggregator/run_outcome.hpp"
#include "messages/leave.hpp"
#include "messages/validation.hpp"
#include "policy/agreed_steps.hpp"
#include "storage/json_text.hpp"
#include "telemetry/logging.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace dynamix::actors {
namespace {

/// In a tree a shard finds out who is silent; the root waits for as long again, in which a lost shard's workers find
/// another.
cluster::timeouts membership_timeouts(cluster::timeouts timeouts, const root_options& options) {
  if (options.tree())
    timeouts.silence_ms = 2 * timeouts.silence_ms + timeouts.beat_interval_ms;
  return timeouts;
}

/// Who finished this very training under the leader before.
std::optional<std::uint32_t> finished_before(const cluster::cluster_file& file, const root_options& options) {
  const auto& before = options.before;
  const bool known = before && before->end.generation > 0 && before->end.cluster_digest == file.digest() &&
                     before->end.rank < file.members().size();
  return known ? std::optional(before->end.rank) : std::nullopt;
}

} // namespace

root_role::root_role(const std::shared_ptr<const cluster::cluster_file>& file, const cluster::timeouts& timeouts,
                     root_options options, aggregator_links& links)
    : aggregator_role(file, timeouts, links), options_(std::move(options)),
      members_(*file, membership_timeouts(timeouts, options_),
               options_.before ? options_.before->generation.generation : 0, finished_before(*file, options_),
               options_.names ? options_.names->all() : std::vector<std::string>{}) {
  if (!options_.tree())
    return;
  const auto workers = file_->workers().size();
  const auto digest = members_.cluster_digest();
  const auto& known = options_.before ? options_.before->shards : options_.layout;
  layout_ = is_layout_of(known, options_.plan, workers, digest) ? known : plan_layout(options_.plan, workers, digest);
}

void root_role::write_row(ledger::entry entry) {
  options_.run_ledger->append(
      {.at_seconds = links_.now_seconds() - options_.ledger_origin_seconds, .entry = std::move(entry)});
}

// Workers.

/// A peer that goes on calling must let neither the ledger grow nor the log: each host is told of once for the same
/// reason, and in the ledger only those of the cluster file, unless what they say cannot be true. Returns whether it is
/// for the first time.
bool root_role::write_refusal(const messages::hello& hello, const messages::welcome& welcome) {
  constexpr std::size_t refused_max = 8192;
  if (refused_.size() >= refused_max || !refused_.emplace(hello.host, welcome.verdict).second)
    return false;
  const auto& members = members_.state().members;
  if (std::ranges::find(members, hello.host, &member::host) != members.end() && members_.why_implausible(hello).empty())
    write_row(ledger::event{ledger::event_kind::refused, hello.host, welcome.detail});
  return true;
}

/// Of a generation that was formed by an arbitrator before this one: all of its members are waited for, in a tree,
/// whose shards say who is there, with its first window.
void root_role::adopt_windows() {
  if (windows_ && windows_->generation() == members_.generation())
    return;
  windows_.emplace(members_.generation(), window_after(members_.state().first_steps));
  for (const auto rank : members_.state().placed) {
    if (members_.state().members[rank].state != member_state::awaited || !members_.trains(rank))
      continue;
    if (options_.tree())
      windows_->coming(rank);
    else
      windows_->joined(rank);
  }
}

messages::welcome root_role::take_in(const messages::hello& hello, const route& way) {
  const auto elsewhere = refuse_address(hello, way, options_.names.get());
  const auto welcome = elsewhere ? *elsewhere : members_.admit(hello, links_.now_seconds());
  if (welcome.verdict != messages::welcome_verdict::accepted) {
    // Who waits asks again every two seconds, and says itself why.
    const bool told = waits_for_place(welcome) || !write_refusal(hello, welcome);
    spdlog::log(told ? spdlog::level::debug : spdlog::level::warn, "refused host={} detail={}", hello.host,
                storage::quoted(welcome.detail));
    return welcome;
  }
  raise_term();
  if (hello.reserves)
    return welcome;
  if (hello.training) {
    adopt_windows();
    // One that comes back in a generation that is over reports nothing of this one.
    if (members_.is_placed(welcome.rank) && members_.trains(welcome.rank)) {
      windows_->reached(window_after(hello.steps));
      windows_->joined(welcome.rank);
    }
  }
  const auto missing = members_.count(member_state::awaited);
  auto text = members_.missing() > 0 ? fmt::format("{} more are awaited", members_.missing())
              : missing == 0         ? std::string{"all workers are here"}
                                     : fmt::format("waiting for {}", members_.names(member_state::awaited));
  const bool new_here = hello.generation == 0;
  // The generation's end names who came first, which may have been thrown out by the one with the cause.
  const auto& why = members_.state().members[welcome.rank].detail;
  const bool told = !hello.left_because.empty() && !why.empty();
  spdlog::info("{} host={} rank={} steps={} {}{}", new_here ? "joined" : "rejoined", hello.host, welcome.rank,
               hello.steps, text, told ? " reason=" + storage::quoted(why) : "");
  if (told)
    text = fmt::format("it came out of generation {}: {}; {}", hello.generation, why, text);
  write_row(ledger::event{new_here ? ledger::event_kind::joined : ledger::event_kind::rejoined, hello.host, text});
  return welcome;
}

/// The leader before may have kept decisions and died before it sent them to all.
void root_role::send_kept_decision(const messages::hello& hello, std::uint32_t rank) {
  const auto& before = options_.before;
  if (!before || hello.generation != before->generation.generation || !(hello.last_decision < before->newest_key))
    return;
  const auto found = std::ranges::find(before->decisions, rank, &messages::decision::rank);
  if (found != before->decisions.end() && found->generation == hello.generation)
    links_.decide(*found);
}

void root_role::take_hello(const messages::hello& hello, const route& way, hello_reply reply) {
  if (const auto home = way.empty() ? "" : find_home(hello.host, way); !home.empty()) {
    messages::welcome elsewhere;
    elsewhere.verdict = messages::welcome_verdict::not_leader;
    elsewhere.detail = fmt::format("the shard of host {} is there", hello.host);
    elsewhere.leader = home;
    return reply.answer(elsewhere);
  }
  const auto welcome = take_in(hello, way);
  if (waits_for_place(welcome))
    reply.keep_waiting();
  if (welcome.verdict != messages::welcome_verdict::accepted)
    return reply.answer(welcome);
  routes_[welcome.rank] = way;
  auto admit = [this, hello, welcome, way, reply] { admit_worker(hello, welcome, way, reply); };
  if (options_.names && options_.names->name_of(welcome.rank) != hello.host) {
    // Another leader must know whose the rank is before anybody goes by it, also where the host asks again meanwhile.
    keep(
        replication::place_given{.rank = welcome.rank, .host = hello.host, .cluster_digest = members_.cluster_digest()},
        [this, rank = welcome.rank, host = hello.host, admit = std::move(admit)] {
          if (const auto problem = options_.names->give(rank, host); !problem.empty())
            spdlog::warn("places_not_kept error={}", storage::quoted(problem));
          admit();
        });
  } else if (way.empty()) {
    admit(); // its decisions wait for the term by themselves
  } else {
    once_in_force(std::move(admit)); // its shard decides at once
  }
}

void root_role::admit_worker(const messages::hello& hello, const messages::welcome& welcome, const route& way,
                             const hello_reply& reply) {
  if (way.empty()) {
    reply.connect(welcome.rank);
    if (stop_requested_)
      links_.stop(welcome.rank);
    if (hello.training)
      send_kept_decision(hello, welcome.rank);
  }
  reply.answer(welcome);
  if (!hello.training && members_.is_placed(welcome.rank))
    unsure_.insert(welcome.rank);
  links_.look_soon(); // behind the answer: a place must not come before it
}

bool root_role::take_beat(const messages::heartbeat& sign) {
  if (const auto why = members_.why_implausible(sign); !why.empty()) {
    spdlog::warn("heartbeat_refused rank={} error={}", sign.rank, storage::quoted(why));
    return true;
  }
  follow_progress(sign);
  if (members_.beat(sign, links_.now_seconds()))
    write_row(ledger::event{ledger::event_kind::resumed, host_of(sign.rank),
                            fmt::format("generation {} has completed step {}", sign.generation, sign.steps)});
  return true;
}

void root_role::take_farewell(const messages::farewell& farewell, std::function<void(bool taken)> answered) {
  if (!members_.departed(farewell, links_.now_seconds()))
    return answered(true);
  std::erase_if(farewells_, [&](const auto& said) { return said.rank == farewell.rank; }); // of an earlier life
  farewells_.push_back(farewell);
  keep_completion();
  write_row(ledger::farewell{farewell});
  routes_.erase(farewell.rank);
  links_.disconnect(farewell.rank);
  end_reports(farewell, options_.tree());
  links_.lose(farewell.rank);
  links_.look_soon(); // behind the answer, after which this host may end
  answered(true);
}

/// Should this leader die now, another must not wait for workers that have all ended.
void root_role::keep_completion() {
  const auto said = std::ranges::find_if(farewells_, messages::tells_completion);
  if (said == farewells_.end() || !members_.ending(links_.now_seconds()) || std::exchange(completion_kept_, true))
    return;
  keep(replication::training_ended{.generation = members_.generation(),
                                   .rank = said->rank,
                                   .cluster_digest = members_.cluster_digest()},
       [] {});
}

/// What it said of the end was believed by nobody: its farewell is that of a worker that has failed.
void root_role::tell_false_completion(std::uint32_t rank, const std::string& detail) {
  spdlog::error("completion_refused host={} rank={} reason={}", host_of(rank), rank, storage::quoted(detail));
  for (auto& said : farewells_)
    if (said.rank == rank) {
      said.succeeded = false;
      said.end = messages::farewell_end::failed;
      said.reason = messages::fit_text(detail);
      write_row(ledger::farewell{said});
    }
  write_row(ledger::event{ledger::event_kind::lost, host_of(rank), detail});
  if (windows_)
    pass_on(windows_->left(rank, links_.now_seconds()));
}

void root_role::take_evaluation(const messages::evaluation_report& evaluation) {
  write_row(ledger::evaluation{evaluation});
}

void root_role::lost_worker(std::uint32_t rank) {
  routes_.erase(rank);
  links_.disconnect(rank);
  lose(rank, "the connection to it broke");
}

void root_role::lose(std::uint32_t rank, const std::string& detail) {
  if (members_.disconnected(rank, detail, links_.now_seconds()))
    tell_loss(rank, detail);
  look();
}

/// A loss is told once, whether the membership or a broken connection shows it.
void root_role::tell_loss(std::uint32_t rank, const std::string& detail) {
  const auto& host = host_of(rank);
  spdlog::error("worker_lost host={} rank={} reason={}", host, rank, storage::quoted(detail));
  write_row(ledger::event{ledger::event_kind::lost, host, detail});
  if (windows_)
    pass_on(windows_->left(rank, links_.now_seconds()));
  links_.lose(rank);
}

// Windows and terms.

void root_role::pass_on(const std::vector<closed_window>& closed) {
  for (const auto& window : closed) {
    if (window.reports.empty())
      continue;
    if (window.choices.size() == window.reports.size()) {
      links_.judge(window.joined());
      continue;
    }
    // Who trains and has not come to this arbitrator yet may have obeyed a newer term than all that have.
    const bool last = policy::agree_on_steps(window, file_->arbitrator.window_steps).last;
    if (!options_.tree() && (members_.complete() || last))
      links_.decide_on(window);
  }
}

void root_role::keep(journal_content content, std::function<void()> action) {
  kept_.keep(options_.journal.get(), proposed_term_, std::move(content), std::move(action), links_.settled());
}

void root_role::raise_term() {
  const auto kept = options_.before ? options_.before->term : 0;
  const auto term = std::max(members_.highest_term(), kept) + terms_;
  if (term <= proposed_term_)
    return;
  proposed_term_ = term;
  keep(replication::term_begun{.leader = options_.voter}, [this, term] {
    term_ = term;
    links_.raise_term(term);
    for (const auto& [host, _] : children_)
      order(host, {.leaving = {}, .reason = {}});
    while (!awaiting_terms_.empty() && awaiting_terms_.front().first <= term) {
      const auto action = std::move(awaiting_terms_.front().second);
      awaiting_terms_.pop_front();
      action();
    }
  });
}

void root_role::once_in_force(std::function<void()> action) {
  if (term_ >= proposed_term_)
    action();
  else
    awaiting_terms_.emplace_back(proposed_term_, std::move(action));
}

void root_role::serve_arbitrator() {
  if (options_.tree() && term_ > 0) // it only judges what shards decide, and they do so until the next is kept
    links_.raise_term(term_);
  ++terms_;
  raise_term();
}

// Generations.

void root_role::look() {
  find_late_children();
  replace_lost_shards();
  for (const auto rank : std::exchange(unsure_, {}))
    if (members_.state().announced)
      place({rank}, newest_);
  for (const auto& change : members_.next(links_.now_seconds()))
    carry_out(change);
  keep_completion();
  look_whether_over();
  if (ended_)
    links_.dismiss_waiting(
        {std::max<std::uint64_t>(1, members_.generation()), messages::generation_change::ended, "training is over"});
}

void root_role::carry_out(const membership_change& change) {
  for (const auto& loss : change.lost)
    tell_loss(loss.rank, loss.detail);
  for (const auto& fault : change.false_completions)
    tell_false_completion(fault.rank, fault.detail);
  for (const auto& held : change.held) {
    spdlog::warn("left_out host={} rank={} reason={}", host_of(held.rank), held.rank, storage::quoted(held.detail));
    write_row(ledger::event{ledger::event_kind::warning, host_of(held.rank), held.detail});
  }
  if (change.phase) {
    const bool ending = *change.phase == generation_phase::ending;
    spdlog::warn("generation_{} generation={} reason={}", ending ? "ends" : "regroups", members_.generation(),
                 storage::quoted(change.reason));
    write_row(ledger::event{ending ? ledger::event_kind::ending : ledger::event_kind::regrouping, "",
                            fmt::format("generation {}: {}", members_.generation(), change.reason)});
  }
  // One message for all that are told the same.
  std::vector<std::pair<messages::generation_notice, std::vector<std::uint32_t>>> told;
  for (const auto& [rank, notice] : change.notices) {
    const auto same = std::ranges::find(told, notice, [](const auto& entry) { return entry.first; });
    if (same == told.end())
      told.push_back({notice, {rank}});
    else
      same->second.push_back(rank);
  }
  for (const auto& [notice, ranks] : told)
    take_notice(ranks, notice);
  if (change.placement)
    begin_generation(change);
}

void root_role::begin_generation(const membership_change& change) {
  // Shards have decided on what is there, under the term until now.
  if (windows_ && options_.tree())
    pass_on(windows_->over(links_.now_seconds()));
  // What was decided on a window that is trained again must not be taken for what is decided now.
  ++terms_;
  completion_kept_ = false;
  raise_term();
  replication::generation_formed formed{.generation = change.placement->generation,
                                        .members = {},
                                        .source = change.placement->source,
                                        .next_window = window_after(change.steps)};
  for (const auto rank : change.placement->members)
    formed.members.push_back({.rank = rank, .incarnation = members_.state().members[rank].incarnation});
  keep(std::move(formed), [this, change, reason = members_.state().reason] { announce(change, reason); });
}

void root_role::announce(const membership_change& change, const std::string& reason) {
  newest_ = *change.placement;
  // With hosts that only serve the workers meet twice: all members, and the workers alone.
  const auto trains = [this](std::uint32_t rank) { return members_.trains(rank); };
  const auto members = newest_.members.size();
  const auto workers = static_cast<std::size_t>(std::ranges::count_if(newest_.members, trains));
  links_.open_store(workers == members ? members : members + workers);
  windows_.emplace(newest_.generation, window_after(change.steps));
  std::vector<std::string> hosts;
  std::vector<std::uint32_t> placed;
  for (const auto rank : newest_.members) {
    hosts.push_back(host_of(rank));
    // Who was lost since and is back as another process waits for the next one.
    if (members_.is_placed(rank)) {
      placed.push_back(rank);
      if (members_.trains(rank))
        windows_->joined(rank);
    }
  }
  place(placed, newest_);
  members_.announced();
  links_.look_soon(); // what became of it meanwhile is told behind the places
  const auto& source = host_of(newest_.source);
  dynamix::telemetry::set_log_generation(newest_.generation);
  spdlog::info("generation_formed generation={} members={} source={} steps={} steps_lost={}", newest_.generation,
               members_.names(newest_.members), source, change.steps, change.steps_lost);
  write_row(ledger::generation{.generation = newest_.generation,
                               .members = std::move(hosts),
                               .source = source,
                               .reason = reason,
                               .steps = change.steps,
                               .steps_lost = change.steps_lost});
}

// The end.

void root_role::stop() {
  stop_requested_ = true;
  members_.stop_asked();
  links_.stop_all();
  look();
}

/// The run is over when the last worker has gone; the arbitrator then finishes what it was sent.
void root_role::look_whether_over() {
  auto why = members_.over(links_.now_seconds());
  if (why.empty() && stop_requested_ && routes_.empty())
    why = "a stop was requested, and no worker is connected";
  if (ended_ || why.empty())
    return;
  ended_ = true;
  spdlog::info("run_over reason={}", storage::quoted(why));
  for (std::uint32_t rank = 0; rank < members_.state().members.size(); ++rank)
    if (!members_.trains(rank)) // nobody is left to sum for
      links_.stop(rank);
  const auto outcome = judge_run(members_, farewells_, stop_requested_, why);
  if (!links_.has_arbitrator())
    return finish(outcome);
  if (windows_) // the last one may wait for who never came to this arbitrator
    pass_on(windows_->deadline(windows_->open_window(), links_.now_seconds()));
  links_.finish_arbitrator([this, outcome] { finish(outcome); });
}

void root_role::finish(const part_outcome& outcome) {
  for (const auto& [host, _] : children_) {
    write_shard(host, ledger::shard_state::ended);
    order(host, {.leaving = {},
                 .finished = true,
                 .succeeded = outcome.succeeded,
                 .reason = outcome.reason,
                 .stopped = outcome.stopped});
  }
  options_.events->arbitrator_ended(outcome, farewells_);
}

} // namespace dynamix::actors
