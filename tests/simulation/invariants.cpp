#include "tests/simulation/invariants.hpp"

#include "ledger/codec.hpp"
#include "messages/leave.hpp"
#include "tests/simulation/simulation.hpp"

#include <algorithm>
#include <tuple>

namespace dynamix::simulation {

namespace {

/// A loss must have a fault behind it that struck or ended at most so long before.
constexpr std::int64_t blame_us = 12 * us_per_second;

} // namespace

void invariants::violated(const std::string& what) {
  if (!violation_.empty())
    return;
  violation_ = fmt::format("at {:.6f} s: {}", static_cast<double>(world_.time.now_us()) / us_per_second, what);
  world_.log([&] { return "VIOLATION: " + what; });
}

std::uint32_t invariants::rank_of(const std::string& host) const {
  for (std::uint32_t rank = 0; rank < world_.workers.size(); ++rank)
    if (world_.name_of(rank) == host)
      return rank;
  return 0;
}

void invariants::aggregator_started() {
  newest_generation_ = 0;
  last_decided_ = {};
  admitted_.clear();
  farewells_ = 0;
}

void invariants::asked(const messages::hello& said, const std::shared_ptr<connection>& through) {
  asked_[rank_of(said.host)] = {through, said.incarnation, said.generation, said.last_decision.term};
}

bool invariants::is_known(const simulated_worker& worker) const {
  const auto known = admitted_.find(worker.rank());
  return worker.alive() && known != admitted_.end() && known->second.incarnation == worker.incarnation();
}

void invariants::reported(const messages::window_report& report) {
  auto& newest = reported_[report.generation];
  newest = std::max(newest, report.window);
}

void invariants::aggregator_gone() {
  aggregator_gone_us_ = world_.time.now_us();
}

void invariants::row_written(const ledger::row& row) {
  world_.log([&] {
    auto shown = row;
    if (auto* window = std::get_if<ledger::window>(&shown.entry))
      window->decide_seconds = 0; // the machine's time, not the simulation's
    return "ledger: " + ledger::to_json_line(shown);
  });
  if (const auto* generation = std::get_if<ledger::generation>(&row.entry)) {
    formed(*generation);
    world_.faults.notice(fault_trigger::formation);
  } else if (const auto* window = std::get_if<ledger::window>(&row.entry)) {
    window_judged(*window);
    world_.faults.notice(fault_trigger::decision);
  } else if (const auto* event = std::get_if<ledger::event>(&row.entry)) {
    told(*event);
  } else if (const auto* said = std::get_if<ledger::farewell>(&row.entry)) {
    if (messages::tells_leave(said->farewell))
      world_.faults.felt(); // what follows from it may come later than its request
    else
      ++farewells_;
    intact_ = false;
    world_.faults.notice(fault_trigger::farewell);
  }
}

bool invariants::calm() const {
  return world_.faults.harmless() && world_.shared_file->membership == cluster::membership_kind::listed;
}

void invariants::formed(const ledger::generation& row) {
  ++generations_;
  if (row.generation <= newest_generation_)
    violated(fmt::format("generation {} was formed after {}", row.generation, newest_generation_));
  intact_ = true;
  members_ = row.members.size();
  first_of_aggregator_ = newest_generation_ == 0;
  newest_generation_ = row.generation;
  if (calm() && (generations_ > 1 || row.members.size() != world_.workers.size()))
    violated("without any fault, another generation than the first was formed");
  std::vector<std::uint32_t> members;
  for (const auto& host : row.members)
    members.push_back(rank_of(host));
  check_members(row, members);
  check_steps_lost(row, members);
  attempted_ = row.steps;
}

void invariants::check_members(const ledger::generation& row, const std::vector<std::uint32_t>& members) {
  const auto source = rank_of(row.source);
  for (const auto rank : members) {
    const auto& worker = *world_.workers[rank];
    // While the journal kept it, a member may have gone and come back: then this generation is over already.
    if (const auto meant = meant_.find({row.generation, rank});
        meant != meant_.end() && meant->second != worker.incarnation())
      continue;
    // The aggregator cannot know that a process is gone, nor what it has done since its newest hello.
    // One that leaves may say so while its place is under way.
    if (!is_known(worker) || admitted_[rank].generation != worker.newest().generation || worker.leaves())
      continue;
    if (worker.newest().generation >= row.generation)
      violated(fmt::format("w{} has been in a generation {} before this one", rank, row.generation));
    const auto& place = worker.thread.place;
    if ((place && place->goes_on()) || worker.now() >= simulated_worker::phase::leaving)
      violated(fmt::format("w{} was placed in generation {} while it is in generation {}", rank, row.generation,
                           worker.newest().generation));
    const auto steps = worker.thread.state.steps > 0 ? worker.thread.state.steps : worker.checkpoint_steps();
    if (steps > row.steps)
      violated(fmt::format("generation {} starts from step {}, and w{} holds step {}", row.generation, row.steps, rank,
                           steps));
    if (rank == source && steps != row.steps)
      violated(fmt::format("the source w{} holds step {}, not {}", rank, steps, row.steps));
  }
}

void invariants::check_steps_lost(const ledger::generation& row, const std::vector<std::uint32_t>& members) {
  // One that knows nothing of generations before may count again what was lost at the end of an older one.
  const auto attempted = std::max(first_of_aggregator_ ? furthest_ : attempted_, row.steps);
  if (row.steps_lost > attempted - row.steps)
    violated(fmt::format("generation {} is said to have lost {} steps; nobody has tried more than step {} of {}",
                         row.generation, row.steps_lost, attempted, row.steps));
  if (row.steps_lost > 0 && world_.faults.orderly())
    violated(fmt::format("generation {} is said to have lost {} steps, and all who went left in order", row.generation,
                         row.steps_lost));
  if (last_trained_ == nullptr)
    return;
  const bool survives = std::ranges::any_of(members, [&](auto rank) {
    const auto& worker = *world_.workers[rank];
    const auto trained = last_trained_->incarnations.find(rank);
    return is_known(worker) && admitted_[rank].generation == worker.newest().generation && !worker.leaves() &&
           trained != last_trained_->incarnations.end() && trained->second == worker.incarnation();
  });
  if (!survives)
    return;
  if (last_trained_->completed > row.steps + 1)
    violated(fmt::format("generation {} starts from step {} though one of those who trained to step {} is there",
                         row.generation, row.steps, last_trained_->completed));
  const auto completed = std::exchange(last_trained_->completed, std::min(last_trained_->completed, row.steps));
  last_trained_->counted = true;
  if (row.steps_lost + row.steps < completed)
    violated(fmt::format("generation {} starts from step {} and is said to have lost {}; step {} was completed",
                         row.generation, row.steps, row.steps_lost, completed));
}

void invariants::training_started(const ring& place, const training_state& state) {
  auto& trained = trained_[&place];
  for (const auto rank : place.place().members)
    trained.incarnations[rank] = world_.workers[rank]->incarnation();
  trained.completed = state.steps;
  last_trained_ = &trained;
  for (const auto rank : place.place().members) {
    const auto& one = *world_.workers[rank];
    if (one.thread.state.steps > state.steps)
      violated(fmt::format("generation {} starts from step {} and overwrites w{}'s step {}", place.place().generation,
                           state.steps, rank, one.thread.state.steps));
    if (one.newest().generation != place.place().generation || one.newest().members != place.place().members)
      violated(fmt::format("w{} trains in generation {} with others than it was told", rank, place.place().generation));
  }
}

void invariants::step_attempted(std::uint64_t step) {
  attempted_ = std::max(attempted_, step);
  furthest_ = std::max(furthest_, step);
}

void invariants::step_completed(const ring& place, const simulated_worker& worker) {
  auto& trained = trained_[&place];
  const auto& state = worker.thread.state;
  if (!trained.counted)
    trained.completed = std::max(trained.completed, state.steps);
  last_trained_ = &trained;
  const auto [before, first] = trained.digests.try_emplace(state.steps, state.digest);
  if (!first && before->second != state.digest)
    violated(fmt::format("w{} holds another state after step {} than its peers", worker.rank(), state.steps));
  if (trained.digests.size() > 4)
    trained.digests.erase(trained.digests.begin());
}

void invariants::window_judged(const ledger::window& window) {
  ++windows_;
  // What is decided on waits for the journal; the last window of training, on which nothing is decided, does not.
  const bool in_order = window.decided || !world_.host.replicated();
  if (in_order && window.key <= last_decided_)
    violated(fmt::format("window {} was decided under term {} after window {} under term {}", window.key.window,
                         window.key.term, last_decided_.window, last_decided_.term));
  if (in_order)
    last_decided_ = window.key;
  if (calm() && window.workers.size() != world_.workers.size())
    violated(fmt::format("without any fault, window {} was judged without all reports", window.key.window));
  if (world_.is_tree())
    return judged_by_shards(window);
  check_waiting(window);
  if (!window.decided)
    return;
  ++decided_in_[window.generation];
  auto& judged = expected_[window.key].emplace_back();
  for (const auto& row : window.workers) {
    if (row.report.final) // it ends, and takes no decision
      continue;
    ++decisions_;
    const auto rank = row.report.rank;
    const auto known = admitted_.find(rank);
    auto& expected = judged[rank];
    expected.decided_us = world_.time.now_us();
    expected.batch = row.decided_batch;
    expected.said_term = known == admitted_.end() ? 0 : known->second.term;
    if (known != admitted_.end() && known->second.through && known->second.through->server().up)
      expected.through = known->second.through;
  }
}

/// Nobody who reported in time was passed over.
void invariants::check_waiting(const ledger::window& window) {
  const bool early = window.gather_seconds < world_.timeouts.gather_timeout_ms / 1000.0 - 1e-6;
  for (const auto& row : window.workers) {
    if (row.report.generation != window.generation)
      violated("a window was judged by a report of another generation");
    if (row.stale && early && reported_[window.generation] <= window.key.window)
      violated(fmt::format("window {} did not wait for the report of w{}", window.key.window, row.report.rank));
  }
  if (intact_ && early && window.generation == newest_generation_ && window.workers.size() < members_ &&
      reported_[window.generation] <= window.key.window)
    violated(fmt::format("window {} did not wait for the reports of all members", window.key.window));
}

/// The row tells what the shards have decided: the worker must not have taken anything else.
void invariants::judged_by_shards(const ledger::window& window) {
  for (const auto& row : window.workers)
    if (row.report.generation != window.generation)
      violated("a window was judged by a report of another generation");
  if (!window.decided)
    return;
  ++decided_in_[window.generation];
  for (const auto& row : window.workers) {
    ++decisions_;
    const auto found = taken_.find({window.generation, window.key, row.report.rank});
    if (found != taken_.end() && !row.stale && found->second != row.decided_batch)
      violated(fmt::format("w{} has taken batch {} of window {} under term {}, and the ledger tells of {}",
                           row.report.rank, found->second, window.key.window, window.key.term, row.decided_batch));
  }
}

void invariants::offered_by_shard(const simulated_worker& worker, const messages::decision& decision,
                                  session::offer_verdict verdict) {
  const bool outdated = decision.generation < worker.newest().generation || worker.newest().generation == 0;
  if (verdict == session::offer_verdict::wrong_generation && !outdated)
    return violated(fmt::format("w{} was sent a decision of generation {} before it was placed in it", worker.rank(),
                                decision.generation));
  if (verdict == session::offer_verdict::out_of_bounds)
    return violated(fmt::format("w{} was sent a decision beyond its bounds", worker.rank()));
  if (verdict == session::offer_verdict::accepted)
    taken_[{decision.generation, decision.key, worker.rank()}] = decision.batch;
}

void invariants::offered(const simulated_worker& worker, const messages::decision& decision,
                         session::offer_verdict verdict) {
  const auto name = [&] {
    return fmt::format("the decision on window {} under term {} for w{}", decision.key.window, decision.key.term,
                       worker.rank());
  };
  world_.log([&] {
    return fmt::format("w{}: takes the decision on window {} under term {}: verdict {}", worker.rank(),
                       decision.key.window, decision.key.term, static_cast<int>(verdict));
  });
  if (world_.is_tree())
    return offered_by_shard(worker, decision, verdict);
  const auto key = expected_.find(decision.key);
  if (key == expected_.end()) {
    // Its leader may have died between keeping it and writing its row.
    const auto kept = kept_.find(decision.key);
    if (kept == kept_.end())
      return violated(name() + " stands in no ledger");
    held_[worker.rank()][decision.key] = &kept->second;
    return;
  }
  // An aggregator that knows nothing of the one before may use its keys again, for other processes.
  const auto judged = std::find_if(key->second.rbegin(), key->second.rend(), [&](const judged_decisions& one) {
    const auto found = one.find(worker.rank());
    return found != one.end() && !found->second.arrived;
  });
  if (judged == key->second.rend())
    return violated(name() + " reached it twice, or was never made for it");
  auto& expected = (*judged)[worker.rank()];
  expected.arrived = true;
  held_[worker.rank()][decision.key] = &*judged;
  if (expected.batch != decision.batch)
    return violated(name() + " is another than the ledger's");
  // The arbitrator before may have sent a decision that overtook the hello by which this one was made.
  if (verdict == session::offer_verdict::stale && decision.key.term > expected.said_term)
    return;
  // A process that is new may get what was made for the one before it.
  const bool outdated = decision.generation < worker.newest().generation || worker.newest().generation == 0;
  if (verdict != session::offer_verdict::accepted && !(verdict == session::offer_verdict::wrong_generation && outdated))
    violated(fmt::format("{} was refused: {}", name(), static_cast<int>(verdict)));
}

void invariants::applied(const ring& place, const simulated_worker& worker, const messages::decision& decision) {
  if (decision.key <= worker.thread.state.last_applied)
    violated(fmt::format("w{} applied window {} of term {} after a newer decision", worker.rank(), decision.key.window,
                         decision.key.term));
  if (world_.is_tree()) {
    for (const auto rank : place.place().members)
      if (!taken_.contains({place.place().generation, decision.key, rank}))
        violated(fmt::format("w{} applied window {} of term {}, which w{} has not taken", worker.rank(),
                             decision.key.window, decision.key.term, rank));
    return;
  }
  const auto* judged = held_[worker.rank()][decision.key];
  if (judged == nullptr)
    return violated(fmt::format("w{} applied a decision that it never took", worker.rank()));
  for (const auto rank : place.place().members)
    if (held_[rank][decision.key] != judged)
      violated(fmt::format("w{} and w{} apply window {} of term {} as two arbitrators decided it", worker.rank(), rank,
                           decision.key.window, decision.key.term));
}

void invariants::told(const ledger::event& event) {
  if (event.event == ledger::event_kind::joined || event.event == ledger::event_kind::rejoined) {
    const auto rank = rank_of(event.host);
    admitted_[rank] = asked_[rank];
  }
  if (event.event == ledger::event_kind::restarted && event.text.find("unhandled_exception") != std::string::npos)
    violated("an actor threw: " + event.text);
  using ledger::event_kind;
  static constexpr event_kind alarms[] = {event_kind::lost, event_kind::ending, event_kind::refused,
                                          event_kind::regrouping, event_kind::restarted};
  if (std::ranges::find(alarms, event.event) == std::end(alarms))
    return;
  if (calm())
    violated(fmt::format("without any fault: {} {} {}", messages::name_of(event.event), event.host, event.text));
  intact_ &= event.event != ledger::event_kind::lost && event.event != ledger::event_kind::ending;
  if (event.event == ledger::event_kind::ending)
    world_.faults.notice(fault_trigger::ending);
  const bool left = event.event == ledger::event_kind::lost && world_.workers[rank_of(event.host)]->finished();
  // A generation that was formed with one that has finished meanwhile ends when no step is completed for long.
  const bool alarm =
      event.event == ledger::event_kind::lost || (event.event == ledger::event_kind::ending && farewells_ == 0);
  if (alarm && !left && world_.time.now_us() > world_.faults.last_us() + blame_us)
    violated(fmt::format("no fault explains: {} {} {}", messages::name_of(event.event), event.host, event.text));
}

void invariants::worker_ended(const simulated_worker& worker, bool succeeded, const std::string& reason) {
  if (!succeeded)
    violated(fmt::format("w{} gave up: {}", worker.rank(), reason));
}

void invariants::run_ended(const actors::part_outcome& outcome) {
  if (calm() && (!outcome.succeeded || outcome.reason != "all workers have finished"))
    violated("without any fault, the run ended with: " + outcome.reason);
}

void invariants::finish() {
  for (const auto& [key, aggregators] : expected_)
    for (const auto& judged : aggregators)
      for (const auto& [rank, expected] : judged) {
        const bool excused = !expected.through || expected.decided_us == aggregator_gone_us_ ||
                             !(expected.through->parted || expected.through->stands());
        if (!expected.arrived && !excused)
          violated(
              fmt::format("the decision on window {} under term {} never reached w{}", key.window, key.term, rank));
      }
}

} // namespace dynamix::simulation
