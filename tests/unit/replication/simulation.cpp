#include "tests/unit/replication/simulation.hpp"

#include "replication/replica_core.hpp"
#include "replication/words.hpp"
#include "tests/unit/replication/journal_examples.hpp"

#include <algorithm>

namespace dynamix::replication {

/// libraft points to it until it calls back, which may be long after its arbitrator has given it up.
struct simulation::request {
  struct raft_apply apply {};
  struct raft_barrier barrier {};
  simulation* owner = nullptr;
  unsigned voter = 0;
  std::uint64_t raft_term = 0;

  /// Whether it is still waited for.
  bool current() const { return owner->arbitrators_[voter].raft_term == raft_term; }
};

namespace {

/// Whether it is what was seen first at this place, counted from 1; places are first seen in order, since whoever skips
/// some does so with the snapshot of one who did not.
template <class T>
bool agrees(std::vector<T>& seen, std::uint64_t place, const T& value) {
  if (place == seen.size() + 1)
    seen.push_back(value);
  return place <= seen.size() && seen[place - 1] == value;
}

} // namespace

simulation::simulation(std::uint64_t seed) : random_(seed) {
  const unsigned voters = below(3) == 0 ? 5 : 3;
  ::raft_fixture_initialize(&fixture_);
  arbitrators_.resize(voters);
  led_terms_.resize(voters);
  for (unsigned voter = 0; voter < voters; ++voter) {
    machines_.push_back(std::make_unique<journal_machine>());
    machines_.back()->applied = [this, voter](const journal_state& state, const apply_outcome&) {
      applied(voter, state);
    };
    ::raft_fixture_grow(&fixture_, machines_.back()->interface());
    auto* raft = voters_.emplace_back(::raft_fixture_get(&fixture_, voter));
    ::raft_set_pre_vote(raft, true);
    ::raft_set_snapshot_threshold(raft, 8);
    ::raft_set_snapshot_trailing(raft, 4);
    // The fixture's disk counts entries that are still being written when it truncates, and frees them in the end. Only
    // a restart would read what it keeps, and there is none here.
    raft->io->truncate = [](raft_io*, raft_index) { return 0; };
    raft->tracer->emit = [](auto...) {}; // 0.22's says all that happens
    guards_.emplace_back().guard(*raft);
    ::raft_fixture_set_randomized_election_timeout(&fixture_, voter, static_cast<unsigned>(1000 + below(1000)));
  }
  raft_configuration configuration{};
  ::raft_fixture_configuration(&fixture_, voters, &configuration);
  ::raft_fixture_bootstrap(&fixture_, &configuration);
  ::raft_configuration_close(&configuration);
  ::raft_fixture_start(&fixture_);
}

simulation::~simulation() {
  for (auto& one : arbitrators_)
    one.raft_term = 0; // nobody waits for what closing calls back
  ::raft_fixture_close(&fixture_);
}

void simulation::run_with_faults(std::uint64_t virtual_ms) {
  const auto end = time_ms() + virtual_ms;
  auto next_fault = time_ms();
  while (time_ms() < end && violation_.empty()) {
    if (time_ms() >= next_fault) {
      fault();
      next_fault = time_ms() + 1 + below(1500);
    }
    step();
  }
}

bool simulation::heal() {
  const auto voters = static_cast<unsigned>(machines_.size());
  for (unsigned from = 0; from < voters; ++from) {
    ::raft_fixture_set_network_latency(&fixture_, from, 15);
    ::raft_fixture_set_disk_latency(&fixture_, from, 10);
    if (dead_.contains(from))
      ::raft_fixture_revive(&fixture_, from);
    for (unsigned to = 0; to < voters; ++to)
      if (from != to) {
        ::raft_fixture_reconnect(&fixture_, from, to);
        ::raft_fixture_desaturate(&fixture_, from, to);
      }
  }
  dead_.clear();
  const auto acknowledged_before = acknowledged_.size();
  const auto end = time_ms() + 120'000;
  auto next_draw = time_ms();
  while (time_ms() < end && violation_.empty()) {
    // libraft draws anew for each election; the fixture keeps what it was given, and two may split the votes for ever.
    if (time_ms() >= next_draw) {
      for (unsigned voter = 0; voter < voters; ++voter)
        ::raft_fixture_set_randomized_election_timeout(&fixture_, voter, static_cast<unsigned>(1000 + below(1000)));
      next_draw = time_ms() + 5000;
    }
    step();
    if (acknowledged_.size() > acknowledged_before + 1 && all_equal())
      return true;
  }
  return false;
}

void simulation::step() {
  ::raft_fixture_step(&fixture_);
  for (unsigned voter = 0; voter < voters_.size(); ++voter) {
    const auto& raft = *voters_[voter];
    const auto led_term = raft.state == RAFT_LEADER ? raft.current_term : 0;
    if (led_term != led_terms_[voter])
      check_leader(voter, led_term);
    // Most voters do not lead, and did not.
    if ((led_term != 0 || arbitrators_[voter].raft_term != 0) && !dead_.contains(voter))
      arbitrate(voter, led_term);
  }
}

void simulation::fault() {
  const auto voters = machines_.size();
  const auto from = static_cast<unsigned>(below(voters));
  const auto to = static_cast<unsigned>((from + 1 + below(voters - 1)) % voters);
  switch (below(9)) {
  case 0:
    ::raft_fixture_disconnect(&fixture_, from, to);
    return hang_up(from);
  case 1:
  case 2:
    return ::raft_fixture_reconnect(&fixture_, from, to);
  case 3:
    return ::raft_fixture_saturate(&fixture_, from, to);
  case 4:
    return ::raft_fixture_desaturate(&fixture_, from, to);
  case 5:
    return ::raft_fixture_set_network_latency(&fixture_, from, static_cast<unsigned>(1 + below(300)));
  case 6:
    return ::raft_fixture_set_disk_latency(&fixture_, from, static_cast<unsigned>(1 + below(200)));
  case 7:
    ::raft_fixture_set_randomized_election_timeout(&fixture_, from, static_cast<unsigned>(1000 + below(1000)));
    if (dead_.erase(from) > 0)
      ::raft_fixture_revive(&fixture_, from);
    return;
  default:
    // The one that leads more often than the others, and never more than a minority.
    const auto leader = ::raft_fixture_leader_index(&fixture_);
    const auto victim = leader < voters && below(2) == 0 ? leader : from;
    if (dead_.size() < (voters - 1) / 2 && dead_.insert(victim).second) {
      ::raft_fixture_kill(&fixture_, victim);
      hang_up(victim);
    }
  }
}

/// Some of those who followed it hear of it, as if its connections had ended; it may as well be alive.
void simulation::hang_up(unsigned victim) {
  for (auto* raft : voters_)
    if (raft->state == RAFT_FOLLOWER && raft->follower_state.current_leader.id == victim + 1 && below(3) > 0)
      lose_leader(*raft, static_cast<std::uint32_t>(below(400)));
}

void simulation::check_leader(unsigned voter, std::uint64_t led_term) {
  led_terms_[voter] = led_term;
  if (led_term != 0 && leaders_.emplace(led_term, voter).first->second != voter)
    fail("two leaders in term " + std::to_string(led_term));
}

void simulation::arbitrate(unsigned voter, std::uint64_t led_term) {
  auto& self = arbitrators_[voter];
  if (led_term != self.raft_term)
    self = {.raft_term = led_term};
  if (led_term == 0 || self.waits)
    return;
  if (self.client == 0)
    return lead(voter);
  if (self.unsettled)
    return propose(voter, self.proposed);
  if (self.term == 0) {
    const auto& state = machines_[voter]->book().state();
    self.term = state.term + 1;
    return propose(voter, begin_term({self.client, ++self.sequence}, self.term, voter + 1));
  }
  const auto& state = machines_[voter]->book().state();
  if (state.generation.generation == 0)
    return propose(voter, form_generation({self.client, ++self.sequence}, self.term, 1));
  self.window = state.last_window + 1;
  propose(voter, decide_window({self.client, ++self.sequence}, self.term, self.window));
}

/// Waits until everything that was committed is applied.
void simulation::lead(unsigned voter) {
  auto& self = arbitrators_[voter];
  auto waiting = std::make_unique<request>();
  waiting->owner = this;
  waiting->voter = voter;
  waiting->raft_term = self.raft_term;
  waiting->barrier.data = waiting.get();
  const auto code = ::raft_barrier(voters_[voter], &waiting->barrier, [](struct raft_barrier* barrier, int status) {
    const std::unique_ptr<request> done(static_cast<request*>(barrier->data));
    if (!done->current())
      return;
    auto& leader = done->owner->arbitrators_[done->voter];
    leader.waits = false;
    if (status == 0)
      leader.client = ++done->owner->clients_;
  });
  if (code != 0)
    return;
  waiting.release();
  self.waits = true;
}

void simulation::propose(unsigned voter, journal_entry entry) {
  auto& self = arbitrators_[voter];
  word_list words;
  if (const auto fault = encode(entry, words); !fault.empty())
    return fail(fault);
  self.proposed = std::move(entry);
  self.unsettled = true;
  auto waiting = std::make_unique<request>();
  waiting->owner = this;
  waiting->voter = voter;
  waiting->raft_term = self.raft_term;
  waiting->apply.data = waiting.get();
  const auto buffer = to_buffer(words);
  const auto code =
      ::raft_apply(voters_[voter], &waiting->apply, &buffer, 1, [](struct raft_apply* apply, int status, void* result) {
        const std::unique_ptr<request> done(static_cast<request*>(apply->data));
        if (!done->current())
          return;
        done->owner->arbitrators_[done->voter].waits = false;
        if (status == 0)
          done->owner->settled(done->voter, journal_machine::outcome_of(result));
      });
  if (code != 0) {
    ::raft_free(buffer.base);
    return;
  }
  waiting.release();
  self.waits = true;
}

void simulation::settled(unsigned voter, const apply_outcome& outcome) {
  auto& self = arbitrators_[voter];
  self.unsettled = false;
  if (outcome.result != verdict::applied) {
    self.client = 0; // another arbitrator was faster: read again, and begin a higher term
    self.term = 0;
    self.sequence = 0;
    return;
  }
  const auto* window = std::get_if<window_decided>(&self.proposed.content);
  if (window == nullptr)
    return;
  const messages::decision_key key{self.term, window->window};
  if (!acknowledged_.emplace(window->window, key).second)
    fail("window " + std::to_string(window->window) + " was acknowledged twice");
}

void simulation::applied(unsigned voter, const journal_state& state) {
  trace_ = mix(trace_, voter ^ state.digest);
  if (!agrees(digests_, state.position, state.digest))
    fail("voters differ at position " + std::to_string(state.position));
  if (state.newest_key.window > 0 && !agrees(decided_, state.newest_key.window, state.newest_key))
    fail("window " + std::to_string(state.newest_key.window) + " was decided twice");
}

bool simulation::all_equal() const {
  const auto& first = machines_.front()->book().state();
  return std::all_of(machines_.begin(), machines_.end(),
                     [&](const auto& machine) { return machine->book().state() == first; }) &&
         std::all_of(
             acknowledged_.begin(), acknowledged_.end(),
             [&](const auto& one) { return one.first <= decided_.size() && decided_[one.first - 1] == one.second; }) &&
         first.counts.windows_decided == decided_.size() && first.last_window == decided_.size();
}

void simulation::fail(const std::string& what) {
  if (violation_.empty())
    violation_ = what + " at " + std::to_string(time_ms()) + " ms";
}

} // namespace dynamix::replication
