#pragma once

/// libraft's own input and output, with a look at what passes: failures of the disk are noted, since libraft goes on
/// without a word and never writes again; the messages of a voter on probation are held back; who refuses a pre-vote
/// says its own term, which one on probation must learn; and what libraft 0.22 would crash over is kept from it.

#include "replication/libraft.hpp"
#include "replication/probation.hpp"

#include <string>

namespace dynamix::replication {

class guarded_io {
public:
  guarded_io() = default;
  guarded_io(const guarded_io&) = delete;

  /// Wraps what raft_uv_init makes. Returns libraft's code.
  int init(uv_loop_t& loop, const std::string& directory, raft_uv_transport& transport);
  /// Stands before the input and output of a voter that raft_init has set up and raft_start has not: libraft's fixture.
  void guard(raft& voter);
  /// After raft_close has called back, or raft_init has failed.
  void close() { ::raft_uv_close(&wrapped_.io); }
  raft_io* interface() { return &wrapped_.io; }

  /// While set and not over, messages pass only as it allows.
  void watch(probation* watched) { probation_ = watched; }
  /// Has libraft notice that the connection on which it sends to this voter has ended. It only sees that when it sends,
  /// and what it sends is lost: a first request for a vote, if nothing came before.
  void reconnect(std::uint64_t peer);
  /// What the disk refused, or empty. It takes a new instance to go on after that.
  const std::string& fault();
  /// For how long the disk has appended nothing of what it was given, or has not finished a snapshot; 0 where it has
  /// nothing to do.
  std::uint64_t stalled_ms();

private:
  // The first member is what libraft sees, so that a pointer to it leads back here.
  struct wrapped {
    raft_io io{};
    guarded_io* self = nullptr;
  };
  static guarded_io& of(raft_io* io);

  static int start(raft_io* io, unsigned tick_ms, raft_io_tick_cb tick, raft_io_recv_cb receive);
  static void receive(raft_io* io, raft_message* message);
  static int send(raft_io* io, raft_io_send* request, const raft_message* message, raft_io_send_cb sent);
  static int append(raft_io* io, raft_io_append* request, const raft_entry entries[], unsigned count,
                    raft_io_append_cb appended);
  static int set_term(raft_io* io, raft_term term);
  static int set_vote(raft_io* io, raft_id server);
  static int truncate(raft_io* io, raft_index index);
  static int snapshot_put(raft_io* io, unsigned trailing, raft_io_snapshot_put* request, const raft_snapshot* snapshot,
                          raft_io_snapshot_put_cb stored);
  static int snapshot_get(raft_io* io, raft_io_snapshot_get* request, raft_io_snapshot_get_cb loaded);

  int note(const char* what, int code);
  bool on_probation() const { return probation_ != nullptr && probation_->now() != probation::phase::over; }
  bool admit(raft_message& message);
  void depose(const raft_message& appended);
  bool release(raft_message& message) const;
  void wrap();
  raft_time now_ms() { return wrapped_.io.time(&wrapped_.io); }
  void begin_append();
  void end_append();

  wrapped wrapped_;
  raft_io original_{}; ///< its functions
  raft_io_recv_cb receive_ = nullptr;
  probation* probation_ = nullptr;
  std::string fault_;
  bool on_wire_ = false; ///< messages are encoded; the fixture hands them on, and their versions count
  std::size_t open_appends_ = 0;
  raft_time appended_ms_ = 0;    ///< when the first of them was begun, or the last one before it was done
  bool stores_snapshot_ = false; ///< its own or a leader's
  raft_time snapshot_ms_ = 0;    ///< since then
  raft_term loaded_term_ = 0;    ///< of the last entry in the snapshot that is about to be sent
};

} // namespace dynamix::replication
