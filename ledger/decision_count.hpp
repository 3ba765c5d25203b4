#pragma once

/// Decisions made for each worker since its process came, counted as the ledger is read. Pure.

#include "ledger/rows.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace dynamix::ledger {

/// A connection delivers in order, and what is applied was held by all members. So of the decisions between two ends
/// (of the worker's connection or generation, or of the arbitrator) only those behind the newest that was applied can
/// have been on their way at the second. Of an open cluster's hosts the last `hosts_kept` are counted, by use.
class decision_count {
public:
  /// `replicated`: then an arbitrator's process that starts is not yet one that decides.
  explicit decision_count(bool replicated) : replicated_(replicated) {}
  static constexpr std::size_t hosts_kept = 2 * messages::max_workers; ///< more than there are workers at once
  static constexpr std::size_t ends_kept = 64; ///< of a host; of those before, how many were on their way by each cause
  void add(const ledger::row& row);

  struct on_their_way {
    std::string ended; ///< "worker", "generation", "arbitrator" or "leave"
    std::uint64_t most = 0;
  };
  struct made {
    std::uint64_t count = 0;
    std::vector<on_their_way> ends; ///< in the ledger's order, old ones joined by cause before them
  };
  std::map<std::string, made> by_host() const;

private:
  struct stretch {
    std::deque<messages::decision_key> unproven; ///< made behind the newest that was applied
    std::string ended;                           ///< by what; empty: it goes on

    void prove(messages::decision_key applied);
  };
  struct host_count {
    std::uint64_t made = 0;
    bool left = false;      ///< in order; what is still decided for it has nobody to reach
    std::uint64_t used = 0; ///< `uses_` when something last happened to it
    std::deque<stretch> stretches;
    std::deque<messages::decision_key> taken_back; ///< the last ones
    std::map<std::string, std::uint64_t> old_ends; ///< on their way at those that are no longer told apart

    void decide(messages::decision_key key);
    void take_back(messages::decision_key key);
    void apply(messages::decision_key key);
    void end(const char* by);
  };
  void add_window(const ledger::window& window);
  void add_tree(const ledger::tree& by);
  void add_event(const ledger::event& event);
  void add_farewell(const messages::farewell& said);
  void end_all(const char* by);
  host_count& of(const std::string& host);

  bool replicated_;
  messages::decision_key proven_;                 ///< last
  messages::decision_key newest_;                 ///< window that was decided
  std::map<std::uint32_t, std::string> stood_in_; ///< whose old reports stood in for them in it: hosts by rank
  std::map<std::string, host_count> hosts_;
  std::uint64_t uses_ = 0;
};

} // namespace dynamix::ledger
