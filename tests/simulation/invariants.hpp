#pragma once

/// What must hold at every event of a simulated run, judged from what the arbitrator's host writes into the ledger and
/// from what the workers truly hold.

#include "actors/host_events.hpp"
#include "ledger/rows.hpp"
#include "messages/types.hpp"
#include "replication/journal.hpp"
#include "session/decision_slot.hpp"

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace dynamix::simulation {

class simulation;
class simulated_worker;
class ring;
struct connection;
struct training_state;

class invariants {
public:
  explicit invariants(simulation& world) : world_(world) {}

  // What happens.
  void row_written(const ledger::row& row);
  void decision_kept(const messages::decision_key& key) { kept_[key]; }
  void generation_kept(const replication::generation_formed& formed) {
    for (const auto& member : formed.members)
      meant_[{formed.generation, member.rank}] = member.incarnation;
  }
  void aggregator_started();
  void aggregator_gone();
  void run_ended(const actors::part_outcome& outcome);
  /// A hello is on its way to the aggregator, whose row in the ledger tells that it has been heard.
  void asked(const messages::hello& said, const std::shared_ptr<connection>& through = nullptr);
  void reported(const messages::window_report& report);
  void worker_ended(const simulated_worker& worker, bool succeeded, const std::string& reason);
  void training_started(const ring& place, const training_state& state);
  void step_attempted(std::uint64_t step);
  void step_completed(const ring& place, const simulated_worker& worker);
  void offered(const simulated_worker& worker, const messages::decision& decision, session::offer_verdict verdict);
  void applied(const ring& place, const simulated_worker& worker, const messages::decision& decision);
  /// The run is over: everything that was decided has arrived.
  void finish();

  /// The first violation counts.
  void violated(const std::string& what);
  const std::string& violation() const { return violation_; }

  std::uint64_t generations() const { return generations_; }
  std::uint64_t decisions() const { return decisions_; }
  std::uint64_t windows() const { return windows_; }
  /// Farewells that the aggregator has taken in.
  std::uint64_t farewells() const { return farewells_; }
  /// Decisions on windows of this generation.
  std::uint64_t decided_in(std::uint64_t generation) const {
    const auto found = decided_in_.find(generation);
    return found == decided_in_.end() ? 0 : found->second;
  }

private:
  /// A hello that has been heard, or is on its way.
  struct greeting {
    std::shared_ptr<connection> through; ///< null where it came through a shard
    std::uint64_t incarnation = 0;
    std::uint64_t generation = 0; ///< that it says
    std::uint64_t term = 0;       ///< of the newest decision that it had then
  };
  bool is_known(const simulated_worker& worker) const;
  /// Whether nothing at all is to happen: no fault, and not an open cluster, which grows.
  bool calm() const;
  void formed(const ledger::generation& row);
  void check_members(const ledger::generation& row, const std::vector<std::uint32_t>& members);
  void check_steps_lost(const ledger::generation& row, const std::vector<std::uint32_t>& members);
  std::uint32_t rank_of(const std::string& host) const;
  void window_judged(const ledger::window& window);
  void check_waiting(const ledger::window& window);
  void judged_by_shards(const ledger::window& window);
  void offered_by_shard(const simulated_worker& worker, const messages::decision& decision,
                        session::offer_verdict verdict);
  void told(const ledger::event& event);

  /// A decision that must arrive unless the way to its worker breaks.
  struct expected_decision {
    std::shared_ptr<connection> through;
    std::int64_t decided_us = 0;
    std::uint32_t batch = 0;
    std::uint64_t said_term = 0; ///< by the worker, as far as the arbitrator had heard
    bool arrived = false;
  };
  using judged_decisions = std::map<std::uint32_t, expected_decision>; ///< by rank
  /// A generation that trained.
  struct trained_generation {
    std::map<std::uint32_t, std::uint64_t> incarnations; ///< of its members
    std::uint64_t completed = 0;                         ///< furthest of any member
    bool counted = false;                                ///< what was lost of it stands in the ledger
    std::map<std::uint64_t, std::uint64_t> digests;      ///< of the state after the newest steps
  };

  simulation& world_;
  std::string violation_;
  std::uint64_t generations_ = 0;
  std::uint64_t decisions_ = 0;
  std::uint64_t windows_ = 0;
  std::uint64_t farewells_ = 0;
  std::map<std::uint32_t, greeting> admitted_;      ///< by rank
  std::map<std::uint32_t, greeting> asked_;         ///< the same
  std::map<std::uint64_t, std::uint64_t> reported_; ///< newest window by generation
  std::uint64_t newest_generation_ = 0;             ///< that this aggregator formed
  std::size_t members_ = 0;                         ///< of it
  bool intact_ = false;                             ///< all of them are there
  bool first_of_aggregator_ = false;                ///< the newest is the first that it formed
  std::map<const ring*, trained_generation> trained_;
  trained_generation* last_trained_ = nullptr;
  std::uint64_t furthest_ = 0;          ///< step that anybody has ever tried
  std::uint64_t attempted_ = 0;         ///< furthest step that anybody has tried since the last generation was formed
  messages::decision_key last_decided_; ///< by this aggregator
  std::map<messages::decision_key, std::list<judged_decisions>> expected_;                  ///< of every aggregator
  std::map<std::uint32_t, std::map<messages::decision_key, const judged_decisions*>> held_; ///< by rank
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> meant_; ///< incarnation, by generation and rank
  std::map<messages::decision_key, judged_decisions> kept_; ///< by the journal, where no row may tell of it
  std::map<std::uint64_t, std::uint64_t> decided_in_;
  std::int64_t aggregator_gone_us_ = -1;
  // Of a tree, whose shards decide before the root's ledger tells.
  using decision_place = std::tuple<std::uint64_t, messages::decision_key, std::uint32_t>; ///< generation, key, rank
  std::map<decision_place, std::uint32_t> taken_; ///< batch that the worker has taken
};

} // namespace dynamix::simulation
