#pragma once

#include "replication/guarded_io.hpp"
#include "replication/journal_machine.hpp"

extern "C" {
#include <raft/fixture.h>
}

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace dynamix::replication {

/// Arbitrators on libraft's fixture: voters in one thread, in virtual time, over a network and on disks that are made
/// up. Each voter that leads reads the journal behind a barrier, begins a term and decides the windows after the last,
/// one at a time, as a leading aggregator does; one whose proposal is lost repeats it. Meanwhile connections are cut
/// and saturated, latencies change, voters die and come back. Everything follows from the seed.
class simulation {
public:
  explicit simulation(std::uint64_t seed);
  simulation(const simulation&) = delete;
  ~simulation();

  void run_with_faults(std::uint64_t virtual_ms);
  /// Ends all faults and goes on until a window is decided after that and all voters are equal; false if that does not
  /// come to pass.
  bool heal();

  /// What was found to be wrong; empty if nothing.
  const std::string& violation() const { return violation_; }
  std::uint64_t acknowledged() const { return acknowledged_.size(); }
  std::uint64_t leaders() const { return leaders_.size(); }
  std::uint64_t time_ms() { return ::raft_fixture_time(&fixture_); }
  /// Of everything that was applied anywhere: the same for the same seed.
  std::uint64_t trace() const { return trace_; }

private:
  struct request;
  /// The arbitrator beside one voter.
  struct arbitrator {
    std::uint64_t raft_term = 0; ///< that it serves in; 0 while it does not lead
    std::uint64_t client = 0;
    std::uint64_t sequence = 0;
    std::uint64_t term = 0;   ///< 0 until its term_begun is applied
    std::uint64_t window = 0; ///< that it decides, or decided last
    bool waits = false;       ///< for libraft
    journal_entry proposed;   ///< to be repeated while `unsettled`
    bool unsettled = false;
  };

  void step();
  void fault();
  void arbitrate(unsigned voter, std::uint64_t led_term);
  void lead(unsigned voter);
  void propose(unsigned voter, journal_entry entry);
  void settled(unsigned voter, const apply_outcome& outcome);
  void applied(unsigned voter, const journal_state& state);
  void hang_up(unsigned victim);
  void check_leader(unsigned voter, std::uint64_t led_term);
  void fail(const std::string& what);
  bool all_equal() const;
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  std::mt19937_64 random_;
  raft_fixture fixture_{};
  std::deque<guarded_io> guards_; ///< of the voters, in their order
  std::vector<std::unique_ptr<journal_machine>> machines_;
  std::vector<raft*> voters_; ///< in `fixture_`
  std::vector<arbitrator> arbitrators_;
  std::vector<std::uint64_t> led_terms_;                         ///< of Raft, by voter, as last seen; 0: does not lead
  std::map<std::uint64_t, unsigned> leaders_;                    ///< by term of Raft
  std::vector<std::uint64_t> digests_;                           ///< by position - 1, of any voter
  std::map<std::uint64_t, messages::decision_key> acknowledged_; ///< by window
  std::vector<messages::decision_key> decided_;                  ///< by window - 1, applied anywhere
  std::set<unsigned> dead_;
  std::uint64_t clients_ = 0;
  std::uint64_t trace_ = 0;
  std::string violation_;
};

} // namespace dynamix::replication
