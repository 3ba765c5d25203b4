#pragma once

/// Where an arbitrator keeps what it decides, before anybody obeys it. Knows no CAF.

#include "replication/replica.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace dynamix::actors {

using journal_content = decltype(replication::journal_entry::content);

class decision_journal {
public:
  virtual ~decision_journal() = default;
  /// Calls back once, on any thread and in the order of the calls: true when it is kept for good; false when another
  /// replica leads by now, or it was refused. Then nothing may come of it.
  virtual void keep(std::uint64_t term, journal_content content, std::function<void(bool kept)> done) = 0;
};

/// One client of a replica. Entries are proposed one after the other; one whose outcome is unknown is proposed again
/// under its own key, so that it is applied once.
class replicated_journal final : public decision_journal, public std::enable_shared_from_this<replicated_journal> {
public:
  /// `client`: unique a process start and use; > 0.
  replicated_journal(std::shared_ptr<replication::replica> voter, std::uint64_t client);
  void keep(std::uint64_t term, journal_content content, std::function<void(bool kept)> done) override;

private:
  struct waiting {
    replication::journal_entry entry;
    std::function<void(bool)> done;
    int attempts = 0;
  };
  void propose_first();
  void settle(const replication::proposal_result& result);

  std::shared_ptr<replication::replica> voter_;
  std::uint64_t client_;
  std::mutex mutex_;
  std::uint64_t sequence_ = 0;
  std::deque<waiting> waiting_; ///< the first of them is proposed
};

/// What an actor does once the journal keeps what it is about. Without a journal it does it at once.
class kept_actions {
public:
  /// `told` is called on any thread, and must lead to `settle` on the actor's.
  void keep(decision_journal* journal, std::uint64_t term, journal_content content, std::function<void()> action,
            std::function<void(std::uint64_t token, bool kept)> told);
  /// False when nothing was kept, so nothing was done.
  bool settle(std::uint64_t token, bool kept);
  /// Nothing is under way.
  bool empty() const { return actions_.empty(); }

private:
  std::uint64_t tokens_ = 0;
  std::unordered_map<std::uint64_t, std::function<void()>> actions_;
};

} // namespace dynamix::actors
