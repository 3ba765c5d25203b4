#include "actors/aggregator/shard_role.hpp"

#include "messages/leave.hpp"
#include "storage/json_text.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace dynamix::actors {
namespace {

constexpr double young_seconds = 5; ///< so long a shard that was never attached keeps to its own place, and workers too
constexpr double attach_delay_seconds = 0.1;
constexpr std::uint32_t attaches_before_the_next_place = 5;
constexpr std::uint64_t ticks_a_summary = 2; ///< of signs of life, to the parent: half of what a host may miss

} // namespace

shard_role::shard_role(const std::shared_ptr<const cluster::cluster_file>& file, const cluster::timeouts& timeouts,
                       shard_options options, aggregator_links& links)
    : aggregator_role(file, timeouts, links), options_(std::move(options)),
      workers_(timeouts.silence_ms / 1000.0, timeouts.beat_interval_ms / 1000.0), began_seconds_(links.now_seconds()) {}

// Workers.

/// Never attached, and only begun: what is above it begins, too, and is waited for.
bool shard_role::is_young() const {
  return attachments_ == 0 && links_.now_seconds() - began_seconds_ < young_seconds;
}

/// No word with the root here: again in a moment, or, where that has gone on for long, at the next place.
void shard_role::send_on(const hello_reply& reply) const {
  if (is_young())
    return reply.fail();
  messages::welcome elsewhere;
  elsewhere.verdict = messages::welcome_verdict::not_leader;
  elsewhere.detail = fmt::format("the shard of host {} has lost its parent", options_.host);
  reply.answer(elsewhere);
}

void shard_role::take_hello(const messages::hello& hello, const route& way, hello_reply reply) {
  if (!links_.has_parent())
    return way.empty() ? send_on(reply) : reply.fail();
  if (const auto elsewhere = refuse_address(hello, way, options_.names.get()))
    return reply.answer(*elsewhere);
  links_.relay(hello, [this, hello, way, reply, asked = attachments_](const std::optional<messages::welcome>& welcome) {
    // The answer of a root before the one that it is attached to by now, which knows nothing of this worker.
    if (!welcome || asked != attachments_)
      return reply.fail();
    if (welcome->verdict == messages::welcome_verdict::accepted) {
      if (way.empty())
        reply.connect(welcome->rank);
      joined(hello, welcome->rank, way);
    } else if (waits_for_place(*welcome)) {
      reply.keep_waiting();
    }
    reply.answer(*welcome);
  });
}

void shard_role::joined(const messages::hello& hello, std::uint32_t rank, const route& way) {
  if (!way.empty())
    links_.disconnect(rank);
  routes_[rank] = way;
  if (options_.names)
    options_.names->give(rank, hello.host);
  workers_.joined(rank, hello.incarnation, links_.now_seconds());
  if (hello.training) {
    const bool known = windows_ && windows_->generation() >= hello.generation;
    follow_generation(hello.generation, rank, hello.members);
    if (!known)
      await_own(hello.members);
  }
  if (way.empty())
    spdlog::info("{} host={} rank={} steps={}", hello.generation == 0 ? "joined" : "rejoined", hello.host, rank,
                 hello.steps);
}

/// A worker that comes in mid-training reports on the generation that it trains in.
void shard_role::follow_generation(std::uint64_t generation, std::uint32_t rank,
                                   const std::vector<std::uint32_t>& members) {
  if (!windows_ || windows_->generation() < generation) {
    windows_.emplace(generation);
    placement_ = messages::placement{
        .generation = generation, .members = members, .source = members.front(), .store_prefix = "followed"};
    links_.enter(*placement_);
  }
  if (windows_->generation() == generation && trains(rank))
    windows_->joined(rank);
}

/// One that begins anew in mid-training is found by its workers one after the other. Were its first window closed by
/// the first of them, nobody would decide on what the others report of it. Anybody may come to one that stands by.
void shard_role::await_own(const std::vector<std::uint32_t>& members) {
  const bool stands_by = options_.workers == 0;
  for (const auto rank : members) {
    const bool own = rank >= options_.first_rank && rank - options_.first_rank < options_.workers;
    if ((stands_by || own) && trains(rank))
      windows_->coming(rank);
  }
}

/// Else it only sums for the others, and reports no windows.
bool shard_role::trains(std::uint32_t rank) const {
  const auto members = file_->members();
  return rank >= members.size() || !members[rank]->only_serves();
}

bool shard_role::take_beat(const messages::heartbeat& sign) {
  if (workers_.beat(sign, links_.now_seconds())) {
    follow_progress(sign);
    return true;
  }
  // It looks for another place, and the root sends it to its own.
  forget(sign.rank);
  return false;
}

void shard_role::take_farewell(const messages::farewell& farewell, std::function<void(bool taken)> answered) {
  if (!links_.has_parent())
    return answered(false);
  links_.relay(farewell, [this, farewell, answered](bool taken) {
    if (!taken || workers_.holds_other(farewell.rank, farewell.incarnation))
      return answered(taken);
    farewells_ += messages::tells_leave(farewell) ? 0 : 1;
    const auto way = routes_.find(farewell.rank);
    const bool below = way != routes_.end() && !way->second.empty();
    workers_.left(farewell.rank);
    routes_.erase(farewell.rank);
    links_.disconnect(farewell.rank);
    end_reports(farewell, below);
    answered(true);
  });
}

/// The worker is here no more: its reports are not waited for.
void shard_role::forget(std::uint32_t rank) {
  workers_.left(rank);
  routes_.erase(rank);
  links_.disconnect(rank);
  if (windows_)
    pass_on(windows_->left(rank, links_.now_seconds()));
  links_.lose(rank);
}

void shard_role::lost_worker(std::uint32_t rank) {
  const auto incarnation = workers_.left(rank);
  forget(rank);
  if (incarnation)
    links_.report_absent({.rank = rank, .incarnation = *incarnation, .detail = "the connection to it broke"});
}

void shard_role::find_silent_workers() {
  for (const auto& gone : workers_.find_silent(links_.now_seconds())) {
    const auto way = routes_.find(gone.rank);
    if (way == routes_.end() || !way->second.empty())
      continue; // the aggregator below looks after its own
    spdlog::error("worker_lost rank={} reason={}", gone.rank, storage::quoted(gone.detail));
    if (windows_)
      pass_on(windows_->left(gone.rank, links_.now_seconds()));
    links_.report_absent(gone);
  }
}

// Aggregators below.

void shard_role::take_child(const messages::shard_hello& hello, std::function<void(const messages::welcome&)> answer) {
  adopt_child(hello.node);
  messages::welcome welcome;
  welcome.term = term_;
  answer(welcome);
}

void shard_role::take_absence(const messages::absence& gone, const route& way) {
  if (const auto known = routes_.find(gone.rank); known != routes_.end() && known->second != way)
    return;
  forget(gone.rank);
  links_.report_absent(gone);
}

void shard_role::take_beats(const messages::beat_summary& summary) {
  for (const auto& sign : summary.beats) {
    if (!workers_.beat(sign, links_.now_seconds())) { // it was given up as silent, and lives
      workers_.joined(sign.rank, sign.incarnation, links_.now_seconds());
      workers_.beat(sign, links_.now_seconds());
    }
    routes_[sign.rank] = summary.node;
    follow_progress(sign);
  }
}

void shard_role::lost_child(const std::string& host, bool) {
  spdlog::warn("shard_lost host={}", host);
  children_.erase(host);
  std::vector<std::uint32_t> ranks;
  for (const auto& [rank, way] : routes_)
    if (way == host)
      ranks.push_back(rank);
  for (const auto rank : ranks)
    forget(rank);
}

// Windows and what the parent says.

void shard_role::pass_on(const std::vector<closed_window>& closed) {
  for (const auto& window : closed) {
    if (window.reports.empty())
      continue;
    if (links_.has_arbitrator())
      links_.decide_on(window);
    else if (window.choices.size() == window.reports.size())
      links_.report(window.joined());
  }
}

void shard_role::take_placement(const std::vector<std::uint32_t>& workers, const messages::placement& placement) {
  for (const auto rank : workers)
    follow_generation(placement.generation, rank, placement.members);
  place(workers, placement);
}

void shard_role::take_order(const messages::shard_order& given) {
  if (given.term > term_)
    raise_term(given.term);
  for (const auto rank : given.leaving)
    if (const auto way = routes_.find(rank); way != routes_.end() && way->second.empty())
      workers_.send_away(rank);
  if (given.finished)
    return end({given.succeeded, given.reason, given.stopped});
  for (const auto& [host, _] : children_)
    links_.order(host, given);
}

void shard_role::raise_term(std::uint64_t term) {
  term_ = term;
  links_.raise_term(term);
}

/// One that was started again is told what the one before it was.
void shard_role::serve_arbitrator() {
  links_.raise_term(term_);
  if (placement_)
    links_.enter(*placement_);
}

void shard_role::end(const part_outcome& how) {
  if (std::exchange(ended_, true))
    return;
  for (const auto& [host, _] : children_)
    order(host,
          {.leaving = {}, .finished = true, .succeeded = how.succeeded, .reason = how.reason, .stopped = how.stopped});
  spdlog::info("run_over reason={}", storage::quoted(how.reason));
  links_.dismiss_waiting({std::max<std::uint64_t>(1, windows_ ? windows_->generation() : 0),
                          messages::generation_change::ended, "training is over"});
  if (options_.events)
    options_.events->arbitrator_ended(how, {});
}

// The parent.

void shard_role::reached_parent() {
  attaching_ = false;
  find_parent();
}

void shard_role::find_parent() {
  if (links_.has_parent() || std::exchange(attaching_, true))
    return;
  const messages::shard_hello hello{.cluster = file_->name,
                                    .cluster_digest = file_->digest(),
                                    .host = options_.host,
                                    .node = options_.host,
                                    .parent = options_.parent,
                                    .incarnation = options_.incarnation,
                                    .heartbeat_interval_ms = timeouts_.heartbeat_interval_ms};
  links_.attach(hello, [this](const attach_answer& answer) {
    attaching_ = false;
    if (answer.term)
      attached(*answer.term);
    else
      attach_later(answer.leader);
  });
}

/// A replica that does not lead knows better where to look.
void shard_role::attach_later(const std::string& leader) {
  if (!leader.empty())
    links_.try_parent(leader);
  else if (++refused_attaches_ % attaches_before_the_next_place == 0 && !is_young())
    links_.try_parent({});
  else
    links_.attach_later(attach_delay_seconds);
}

void shard_role::attached(std::uint64_t term) {
  if (attachments_ > 0 && !routes_.empty()) {
    // Its supervisor starts it again, and every worker says anew where it stands.
    spdlog::warn("parent_is_back the shard and its workers start over");
    return links_.begin_anew();
  }
  ++attachments_;
  refused_attaches_ = 0;
  raise_term(std::max(term_, term));
  spdlog::info("attached parent={} term={}", options_.parent, term_);
}

void shard_role::lost_parent(const char* why) {
  if (!links_.has_parent())
    return;
  spdlog::warn("parent_lost reason={} the shard keeps deciding", storage::quoted(why));
  links_.detach();
}

/// The workers of its own host have come to the end of training, which it may have missed.
bool shard_role::has_own_end() const {
  if (!options_.events)
    return false;
  const auto told = options_.events->take();
  return told.worker && std::ranges::all_of(told.workers, [](const auto& worker) { return worker.farewell.succeeded; });
}

void shard_role::tick() {
  find_silent_workers();
  if (!links_.has_parent()) {
    if (workers_.empty() && (farewells_ > 0 || has_own_end()))
      end({true, "all workers have finished"});
    return;
  }
  if (++ticks_ % ticks_a_summary == 0)
    links_.report(messages::beat_summary{.node = options_.host, .beats = workers_.take_beats()}, [this] {
      lost_parent("it does not answer");
      links_.try_parent({});
    });
}

} // namespace dynamix::actors
