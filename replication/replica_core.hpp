#pragma once

#include "replication/directory.hpp"
#include "replication/guarded_io.hpp"
#include "replication/journal_machine.hpp"
#include "replication/libraft.hpp"
#include "replication/replica.hpp"
#include "replication/transport.hpp"
#include "replication/words.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

namespace dynamix::replication {

/// How long the voter `id` waits before it stands for election once the leader `lost` has hung up: nothing for the
/// lowest id, three heartbeats more for each one after it, so that they do not split the votes.
std::uint32_t standing_delay_ms(const std::vector<voter>& voters, std::uint64_t id, std::uint64_t lost,
                                const time_outs& from);

/// A follower has no leader from now on, grants others its vote, and stands for election itself after this long at
/// most.
void lose_leader(raft& follower, std::uint32_t wait_ms);

/// One life of libraft in the directory, with the journal as it makes it from there. A failed disk and the end of a
/// probation take a new one.
struct raft_instance {
  raft_instance(uv_loop_t& loop, transport_options options) : connections(loop, std::move(options)) {}
  transport connections;
  guarded_io io;
  std::optional<probation> trial;
  journal_machine machine;
  raft consensus{};
};

/// Owned by its handle and by its thread. Everything without `mutex_` belongs to the thread:
///
///     try_open -> running -> begin_close -> finish_close -> try_open: after a probation, a damaged directory, and when
///        ^                                       |           the disk failed, retry_ms later
///        '-------- timer <-----------------------'-> end_handles: it was stopped, or cannot be started at all
class replica_core : public std::enable_shared_from_this<replica_core> {
public:
  std::string start(replica_options options);
  void propose(const journal_entry& entry, proposal_callback done);
  void read(read_callback done, bool local);
  observation now() const;
  bool stop(std::uint32_t bound_ms);

private:
  struct request {
    word_list words; ///< empty: a read
    proposal_callback proposed;
    read_callback read;
    bool local = false;
  };
  /// Why libraft does not run.
  struct failure {
    std::string text;
    bool damaged = false; ///< the directory is to blame
  };
  struct open_apply;
  struct open_read;

  // replica_core.cpp: the thread
  void run();
  void after_events();
  std::string check_disk();
  void observe(const observation& seen);
  void report(const std::string& text);
  void schedule(std::uint32_t delay_ms);
  void first_result(const std::string& text);
  void begin_close();
  void finish_close();
  void end_handles();

  // replica_raft.cpp: one life of libraft
  void try_open();
  void open_failed(failure why);
  void make_instance(const directory_state& found);
  int begin_raft(const directory_state& found);
  failure explain(int code) const;
  std::string check_voters() const;
  void drop_instance();
  observation look() const;
  void hung_up(std::uint64_t peer);

  // replica_proposals.cpp
  void post(request&& added);
  void serve_requests();
  void serve(request&& one);
  void serve_proposal(request&& one);
  void serve_read(request&& one);
  std::shared_ptr<const journal_state> copy_state() const; ///< without its policies, which are shared
  void settle(std::size_t words, const proposal_callback& done, const proposal_result& result);
  void refuse_all(const std::string& why);

  replica_options options_;
  time_outs time_outs_;
  uv_loop_t loop_{};
  uv_async_t wake_{};
  uv_timer_t timer_{};
  uv_prepare_t prepare_{};
  uv_check_t check_{};
  std::unique_ptr<raft_instance> instance_;
  bool initialised_ = false; ///< raft_init succeeded: raft_close is due
  bool running_ = false;     ///< libraft is started and not being closed
  bool closing_ = false;
  bool ending_ = false;
  bool handles_ended_ = false;
  bool disk_failed_ = false; ///< room is asked for before the next try
  std::optional<failure> failure_;
  open_read* open_read_ = nullptr; ///< the newest whose barrier is under way
  std::uint64_t led_term_ = 0;     ///< newest that this voter led
  unsigned moved_aside_ = 0;       ///< since it last ran
  std::string last_report_;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<request> inbox_;
  std::size_t open_proposals_ = 0;
  std::size_t open_words_ = 0;
  observation seen_;
  bool accepts_ = false; ///< requests
  bool stop_wanted_ = false;
  bool ended_ = false;
  std::optional<std::string> first_result_; ///< of the first open; empty text: well
};

} // namespace dynamix::replication
