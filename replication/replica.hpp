#pragma once

/// One voter of the cluster that keeps an arbitrator's journal: libraft with a directory, links and a thread of
/// its own. Its functions may be called from any thread; its callbacks come on its thread, and must neither block nor
/// call `start` or `stop`. An actor turns each into a message to itself.
///
/// A new leader goes on like this: `observe` says leader; `read` returns the journal with everything committed in it;
/// it proposes term_begun with a higher term; once that is applied it decides the window after the journal's last.

#include "links/pump.hpp"
#include "replication/journal.hpp"
#include "replication/voter.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::replication {

// Proposals that have not been called back yet; one more is refused.
inline constexpr std::size_t max_open_proposals = 4096;
inline constexpr std::size_t max_open_proposal_words = (128U << 20) / sizeof(std::uint64_t);

enum class role : std::uint8_t {
  stopped = 1,
  waiting, ///< its disk does not let it take part; `report` says why, and it tries again
  joining, ///< without memory; catches up before it votes (replication/probation.hpp)
  follower,
  candidate,
  leader,
};
std::string_view to_string(role value);

struct observation {
  role now = role::stopped;
  std::uint64_t raft_term = 0;
  std::uint64_t leader = 0; ///< id of the voter that leads as far as this one knows; 0 unknown
  friend bool operator==(const observation&, const observation&) = default;
};

enum class proposal_status : std::uint8_t {
  committed = 1, ///< a majority holds it; `outcome` says whether it was applied
  not_leader,    ///< nothing happened; ask `leader`
  unknown,       ///< leadership was lost on the way: propose it again, with the same key, to whoever leads now
  refused,       ///< nothing happened: no valid entry, too many open, or stopped; `text` says which
};
std::string_view to_string(proposal_status value);

struct proposal_result {
  proposal_status status = proposal_status::refused;
  apply_outcome outcome;      ///< when committed
  std::uint64_t position = 0; ///< in the journal, when committed
  std::uint64_t leader = 0;   ///< when not leader; 0 unknown
  std::string text;
};
using proposal_callback = std::function<void(const proposal_result&)>;

struct read_result {
  proposal_status status = proposal_status::refused;
  std::shared_ptr<const journal_state> state; ///< when committed
  std::uint64_t leader = 0;                   ///< when not leader; 0 unknown
};
using read_callback = std::function<void(const read_result&)>;

struct replica_options {
  std::uint64_t id = 0;                    ///< this voter's
  std::vector<voter> voters;               ///< 1, 3 or 5
  std::string directory;                   ///< libraft's files; a damaged one is moved to DIRECTORY.damaged-N
  std::shared_ptr<links::pump> links = {}; ///< by which voters prove their hosts' names
  std::uint32_t detect_ms = 1000;          ///< all time-outs follow from it: `time_outs_of`
  std::uint32_t snapshot_entries = 512;    ///< a snapshot after so many; a quarter of them is kept for those who lag
  std::function<void(const observation&)> observe;                         ///< after every change
  std::function<void(const journal_state&, const apply_outcome&)> applied; ///< after every committed entry
  std::function<void(const std::string&)> report;                          ///< for a person
};

/// Election: a fifth of detect_ms and at least 100 ms; libraft draws from one to two times that. With the default a
/// leader is missed after 200 to 400 ms and the next one is elected well within detect_ms; the least, 100 ms, lets a
/// cluster detect in 100 to 200 ms and still leaves ten heartbeats.
struct time_outs {
  std::uint32_t election_ms = 0;
  std::uint32_t heartbeat_ms = 0;   ///< election / 10
  std::uint32_t reconnect_ms = 0;   ///< election / 2, between attempts to reach a peer
  std::uint32_t handshake_ms = 0;   ///< detect_ms, at least 500
  std::uint32_t silent_peer_ms = 0; ///< twice detect_ms: a connection with bytes unacknowledged for so long is ended
  std::uint32_t retry_ms = 0;       ///< detect_ms, between attempts to start again after a failure of the disk
  std::uint32_t snapshot_ms = 0;    ///< 5 detect_ms, at least 2 s: a snapshot that is not taken in that time is sent
                                    ///< again; until then the follower hears nothing else
};
time_outs time_outs_of(std::uint32_t detect_ms);

class replica_core;

class replica {
public:
  replica();
  replica(const replica&) = delete;
  /// Stops it if it runs.
  ~replica();

  /// Begins the thread and takes part. Returns an empty string, or why that is impossible: options that make no sense,
  /// a directory that cannot be written. Once. The process ignores SIGPIPE from here on.
  std::string start(replica_options options);

  /// Calls back exactly once, also when it stops meanwhile.
  void propose(const journal_entry& entry, proposal_callback done);
  /// The journal with everything in it that was committed when this was called; on the leader only.
  void read(read_callback done);
  /// The journal as far as this voter has it, whoever leads. Status committed, or refused when stopped.
  void read_local(read_callback done);
  observation now() const;

  /// Leaves in order. False if that took longer than `bound_ms`: then the thread is left behind, with all it needs.
  bool stop(std::uint32_t bound_ms = 5000);

private:
  std::shared_ptr<replica_core> core_;
};

} // namespace dynamix::replication
