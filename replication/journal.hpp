#pragma once

/// The state machine that the replicas of an arbitrator agree on: what a new leader must know to go on with the next
/// window. Pure and deterministic: the same entries in the same order make the same state on every replica, so a
/// refusal is as much a part of the state as what was applied.

#include "messages/types.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dynamix::replication {

inline constexpr std::uint32_t max_checkpoint_bytes = messages::max_policy_bytes;
/// Whose last sequence numbers are remembered. A client is one process's life; beyond this many the one that has been
/// silent for most entries is forgotten.
inline constexpr std::size_t max_clients = 1024;

/// Names a proposal for good: it may be proposed any number of times and is applied once.
struct proposal_key {
  std::uint64_t client = 0;   ///< unique a process start; > 0
  std::uint64_t sequence = 0; ///< counts the client's proposals from 1, without gaps in time: it waits for one to be
                              ///< settled before it proposes the next
  friend bool operator==(const proposal_key&, const proposal_key&) = default;
};

/// An arbitrator takes over. Its term must be higher than any before; the term of Raft is another number.
struct term_begun {
  std::uint64_t leader = 0; ///< id of the voter that decides from here on; > 0
  friend bool operator==(const term_begun&, const term_begun&) = default;
};

struct generation_member {
  std::uint32_t rank = 0;
  std::uint64_t incarnation = 0; ///< of the worker's process; > 0
  friend bool operator==(const generation_member&, const generation_member&) = default;
};

struct generation_formed {
  std::uint64_t generation = 0;           ///< from 1, rising
  std::vector<generation_member> members; ///< by rising rank, 1 to messages::max_workers
  std::uint32_t source = 0;               ///< rank of the member whose state all start from
  std::uint64_t next_window = 1; ///< first that its steps lead to; may fall when training resumes from a checkpoint
  friend bool operator==(const generation_formed&, const generation_formed&) = default;
};

struct window_decided {
  std::uint64_t window = 0;                  ///< from 1
  std::vector<messages::decision> decisions; ///< by rising rank, 1 to messages::max_workers; key {entry's term, window}
  friend bool operator==(const window_decided&, const window_decided&) = default;
};

struct policy_published {
  messages::policy_version policy;
  std::vector<std::uint8_t> checkpoint; ///< of the learner; empty keeps the one before, at most max_checkpoint_bytes
  friend bool operator==(const policy_published&, const policy_published&) = default;
};

/// A worker has come to the end of training, as all others have or will: they finish together.
struct training_ended {
  std::uint64_t generation = 0;     ///< newest; > 0
  std::uint32_t rank = 0;           ///< of the first that said so
  std::uint64_t cluster_digest = 0; ///< of the cluster file that it trained by: a longer run may go on from there
  friend bool operator==(const training_ended&, const training_ended&) = default;
};

/// A place of an open cluster has become a host's: workers that train go by their ranks.
struct place_given {
  std::uint32_t rank = 0;
  std::string host; ///< 1 to max_place_name characters
  std::uint64_t cluster_digest =
      0; ///< of the cluster file that the rank is of; another one's forgets the places of this
  friend bool operator==(const place_given&, const place_given&) = default;
};
inline constexpr std::size_t max_place_name = 80;

/// Which shards of a tree of arbitrators take workers, and whose each worker is, in place of what was planned or laid
/// out before. Nodes are counted as in the plan of the cluster file (cluster/tree_plan.hpp).
struct shard_layout {
  std::uint64_t cluster_digest = 0;   ///< of that file
  std::vector<std::uint32_t> serving; ///< nodes that take workers, rising, at most max_nodes
  std::vector<std::uint32_t> homes;   ///< by rank the worker's shard; 0: whichever has room; 1 to messages::max_workers
  friend bool operator==(const shard_layout&, const shard_layout&) = default;
};
/// Of a tree: each host holds one at most.
inline constexpr std::uint32_t max_nodes = 2 * messages::max_workers;

/// One proposal, in the order of `kind_name`.
struct journal_entry {
  proposal_key key;
  std::uint64_t term = 0; ///< the arbitrator's, under which this was decided; > 0
  std::variant<term_begun, generation_formed, window_decided, policy_published, training_ended, place_given,
               shard_layout>
      content;
  friend bool operator==(const journal_entry&, const journal_entry&) = default;
};
std::string_view kind_name(const journal_entry& entry);

/// What became of an entry once it was committed.
enum class verdict : std::uint8_t {
  applied = 1,
  stale_term,        ///< of an arbitrator that a newer one has replaced
  term_not_begun,    ///< of a term that no entry has begun
  generation_passed, ///< a generation that does not rise, or decisions for another one than the newest
  window_passed,     ///< a window that was decided before, or one before that
  term_needed,       ///< the generation goes back to windows that this term has decided: begin a new term first
  policy_passed,     ///< a policy version that does not rise
  damaged,           ///< not an entry
};
std::string_view to_string(verdict value);

struct apply_outcome {
  verdict result = verdict::damaged;
  bool repeated = false; ///< a repetition, not applied again; `result` is that of the first time
};

/// How many committed entries met which fate. Each counts once.
struct journal_counts {
  std::uint64_t windows_decided = 0;
  std::uint64_t generations_formed = 0;
  std::uint64_t policies_published = 0;
  std::uint64_t terms_begun = 0;
  std::uint64_t stale_refused = 0; ///< stale_term
  std::uint64_t duplicated = 0;    ///< the same (client, sequence) again, or an older one
  std::uint64_t refused = 0;       ///< for any other reason
  std::uint64_t damaged = 0;
  friend bool operator==(const journal_counts&, const journal_counts&) = default;
};

struct client_record {
  std::uint64_t sequence = 0; ///< highest
  verdict result = verdict::applied;
  std::uint64_t position = 0; ///< of that entry
  friend bool operator==(const client_record&, const client_record&) = default;
};

struct journal_state {
  std::uint64_t position = 0;        ///< committed entries so far, whatever became of them
  std::uint64_t digest = 0;          ///< of all of them in order: replicas at one position have the same
  std::uint64_t term = 0;            ///< the newest arbitrator's; 0 before the first
  std::uint64_t leader = 0;          ///< its voter
  generation_formed generation;      ///< newest; number 0 before the first
  std::uint64_t last_window = 0;     ///< highest that may not be decided again
  messages::decision_key newest_key; ///< of the last decided window, with all its decisions
  std::vector<messages::decision> decisions;
  std::shared_ptr<const messages::policy_version> policy;              ///< newest; null before the first
  std::shared_ptr<const std::vector<std::uint8_t>> learner_checkpoint; ///< newest; null before the first
  std::uint64_t places_digest = 0;             ///< of the cluster file that the places below are of
  std::map<std::uint32_t, std::string> places; ///< hosts of an open cluster's places, by rank
  training_ended end;                          ///< of the newest generation; its number 0: not known
  shard_layout shards;                         ///< newest; without homes: as planned
  std::map<std::uint64_t, client_record> clients;
  journal_counts counts;
};
/// Compares what the pointers point to.
bool operator==(const journal_state& left, const journal_state& right);

class journal {
public:
  /// Applies one committed entry as it came from the log.
  apply_outcome apply(std::span<const std::uint64_t> words);
  const journal_state& state() const { return state_; }
  /// Takes the place of everything applied before.
  void restore(journal_state state) { state_ = std::move(state); }

private:
  apply_outcome settle(journal_entry& entry);
  void remember(const proposal_key& key, verdict result);
  journal_state state_;
};

} // namespace dynamix::replication
