#include "replication/guarded_io.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace dynamix::replication {
namespace {

/// A voter whose disk and network do what the test says.
class voter_on_trial {
public:
  voter_on_trial() {
    made_.impl = this;
    made_.data = &voter;
    made_.time = [](raft_io* io) { return of(io).now_ms; };
    made_.start = [](raft_io* io, unsigned, raft_io_tick_cb, raft_io_recv_cb receive) {
      of(io).receive_ = receive;
      return 0;
    };
    made_.send = [](raft_io* io, raft_io_send* request, const raft_message* message, raft_io_send_cb sent) {
      of(io).sent.push_back(*message);
      sent(request, 0);
      return 0;
    };
    made_.append = [](raft_io* io, raft_io_append* request, const raft_entry*, unsigned, raft_io_append_cb appended) {
      of(io).append_ = request;
      of(io).appended_ = appended;
      return of(io).refusal;
    };
    made_.set_term = [](raft_io* io, raft_term) { return of(io).refusal; };
    made_.snapshot_put = [](raft_io* io, unsigned, raft_io_snapshot_put* request, const raft_snapshot*,
                            raft_io_snapshot_put_cb stored) {
      of(io).put_ = request;
      of(io).stored_ = stored;
      return 0;
    };
    made_.snapshot_get = [](raft_io* io, raft_io_snapshot_get* request, raft_io_snapshot_get_cb loaded) {
      loaded(request, &of(io).newest, 0);
      return 0;
    };
    voter.io = &made_;
    voter.configuration = {.servers = servers_.data(), .n = voters};
    guard.guard(voter);
    voter.io->start(voter.io, 1, nullptr, [](raft_io* io, raft_message*) { ++of(io).received; });
  }

  void finish_append() { appended_(append_, 0); }
  void finish_snapshot() { stored_(put_, 0); }
  void hear(message_kind kind) {
    raft_message message{};
    set_kind(message, kind);
    message.server_id = 2;
    receive_(&made_, &message);
  }
  int say(raft_message message) {
    message.server_id = 2;
    int told = 0;
    raft_io_send request{};
    request.data = &told;
    voter.io->send(voter.io, &request, &message,
                   [](raft_io_send* done, int status) { *static_cast<int*>(done->data) = status; });
    return told;
  }
  /// What libraft hears of it: the status it is called back with, or, negative, the refusal.
  int append() {
    static int told;
    told = 0;
    raft_entry entry{};
    static raft_io_append request;
    const auto code =
        voter.io->append(voter.io, &request, &entry, 1, [](raft_io_append*, int status) { told = status; });
    return code != 0 ? -code : told;
  }

  guarded_io guard;
  raft voter{};
  raft_time now_ms = 1000;
  int refusal = 0;
  raft_snapshot newest{};
  std::vector<raft_message> sent;
  int received = 0;

private:
  static constexpr unsigned voters = 2;
  static voter_on_trial& of(raft_io* io) { return *static_cast<voter_on_trial*>(io->impl); }

  raft_io made_{};
  std::array<raft_server, 2> servers_ = {
      {{.id = 1, .address = nullptr, .role = RAFT_VOTER}, {.id = 2, .address = nullptr, .role = RAFT_VOTER}}};
  raft_io_recv_cb receive_ = nullptr;
  raft_io_append* append_ = nullptr;
  raft_io_append_cb appended_ = nullptr;
  raft_io_snapshot_put* put_ = nullptr;
  raft_io_snapshot_put_cb stored_ = nullptr;
};

TEST(GuardedIo, TakesNoSnapshotFromALeaderWhileItStoresOne) {
  voter_on_trial one;
  raft_io_snapshot_put request{};
  bool stored = false;
  request.data = &stored;
  one.voter.io->snapshot_put(one.voter.io, 4, &request, &one.newest,
                             [](raft_io_snapshot_put* done, int) { *static_cast<bool*>(done->data) = true; });
  one.hear(message_kind::install_snapshot);
  EXPECT_EQ(one.received, 0);
  one.hear(message_kind::append_entries);
  EXPECT_EQ(one.received, 1);
  one.now_ms += 700;
  EXPECT_EQ(one.guard.stalled_ms(), 700U);
  one.finish_snapshot();
  EXPECT_TRUE(stored);
  EXPECT_EQ(one.guard.stalled_ms(), 0U);
  one.hear(message_kind::install_snapshot);
  EXPECT_EQ(one.received, 2);
}

TEST(GuardedIo, SendsASnapshotUnderTheTermOfItsLastEntry) {
  voter_on_trial one;
  one.newest.index = 120;
  one.newest.term = 4;
  raft_io_snapshot_get request{};
  request.data = &one;
  const auto loaded = [](raft_io_snapshot_get* done, raft_snapshot* snapshot, int) {
    raft_message message{};
    set_kind(message, message_kind::install_snapshot);
    message.install_snapshot.last_index = snapshot->index;
    message.install_snapshot.last_term = 3; // of the one before
    static_cast<voter_on_trial*>(done->data)->say(message);
  };
  one.voter.io->snapshot_get(one.voter.io, &request, loaded);
  ASSERT_EQ(one.sent.size(), 1U);
  EXPECT_EQ(one.sent[0].install_snapshot.last_index, 120U);
  EXPECT_EQ(one.sent[0].install_snapshot.last_term, 4U);
}

TEST(GuardedIo, NeitherHearsNorSaysAnythingAfterTheDiskHasFailed) {
  voter_on_trial one;
  one.refusal = RAFT_IOERR;
  EXPECT_EQ(one.voter.io->set_term(one.voter.io, 7), RAFT_IOERR);
  EXPECT_THAT(one.guard.fault(), testing::HasSubstr("cannot store the term"));
  one.refusal = 0;
  raft_message vote{};
  set_kind(vote, message_kind::request_vote_result);
  EXPECT_EQ(one.say(vote), RAFT_NOCONNECTION);
  one.hear(message_kind::append_entries);
  EXPECT_EQ(one.append(), is_libraft_022 ? RAFT_IOERR : -RAFT_IOERR);
  EXPECT_TRUE(one.sent.empty());
  EXPECT_EQ(one.received, 0);
}

TEST(GuardedIo, TellsHowLongTheDiskHasAppendedNothing) {
  voter_on_trial one;
  EXPECT_EQ(one.guard.stalled_ms(), 0U);
  EXPECT_EQ(one.append(), 0);
  one.now_ms += 300;
  EXPECT_EQ(one.guard.stalled_ms(), 300U);
  EXPECT_EQ(one.guard.fault(), "");
  one.finish_append();
  one.now_ms += 300;
  EXPECT_EQ(one.guard.stalled_ms(), 0U);
}

TEST(GuardedIo, HasLibraft022HearOfARefusedAppendOnceInItsCallback) {
  voter_on_trial one;
  one.refusal = RAFT_NOMEM;
  EXPECT_EQ(one.append(), is_libraft_022 ? RAFT_NOMEM : -RAFT_NOMEM);
  EXPECT_THAT(one.guard.fault(), testing::HasSubstr("cannot append to the log"));
  EXPECT_EQ(one.guard.stalled_ms(), 0U);
}

TEST(GuardedIo, FindsAFailedWriteThatLibraft022KeepsToItself) {
  if (!is_libraft_022)
    GTEST_SKIP() << "0.15 calls back";
  voter_on_trial one;
  EXPECT_EQ(one.append(), 0);
  std::strcpy(one.voter.io->errmsg, "write failed: -5");
  EXPECT_THAT(one.guard.fault(), testing::HasSubstr("write failed: -5"));
}

} // namespace
} // namespace dynamix::replication
