#pragma once

/// libraft's headers, which do not say that they are C, and what its two releases name differently: 0.15 (Debian 12)
/// and 0.22 (Debian 13). What they include comes first, in its own language.

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <uv.h>

// 0.22 compares sizes of structs that it declares within `sizeof`, which C++ does not know.
#define static_assert(...)
extern "C" {
#include <raft.h>
#include <raft/uv.h>
}
#undef static_assert

namespace dynamix::replication {

/// As messages are numbered on the wire.
enum class message_kind : std::uint64_t {
  append_entries = 1,
  append_entries_result,
  request_vote,
  request_vote_result,
  install_snapshot,
  timeout_now
};

inline message_kind kind_of(const raft_message& message) {
  return static_cast<message_kind>(message.type);
}

inline void set_kind(raft_message& message, message_kind kind) {
  message.type = static_cast<decltype(message.type)>(kind);
}

/// That a vote answers a pre-vote: 0.15 knows three answers, of which this is the same number.
inline constexpr auto answers_pre_vote = static_cast<decltype(raft_request_vote_result::pre_vote)>(1);

/// 0.22 writes the version of a header beside the kind, which 0.15 then does not know. Without one it goes by the size.
template <class Message>
void drop_version(Message& message) {
  if constexpr (requires { message.request_vote.version; })
    message.request_vote.version = 0; // the first member of every kind
}

/// 0.22 has versions of the interface to a transport.
template <class Transport>
void set_version(Transport& transport) {
  if constexpr (requires { transport.version; })
    transport.version = 1;
}

#ifdef RAFT_VERSION_NUMBER
inline constexpr bool is_libraft_022 = true;
#else
inline constexpr bool is_libraft_022 = false;
#endif

/// 0.22 tries a write that failed again later, and then takes one thing in memory for another.
inline void never_retry_writes([[maybe_unused]] raft_io& io) {
#ifdef RAFT_VERSION_NUMBER
  ::raft_uv_set_disk_retry(&io, std::numeric_limits<unsigned>::max());
#endif
}

/// 0.22 refuses entries while most voters' disks are nearly full; here a voter whose disk is full leaves.
inline void take_entries_to_the_last([[maybe_unused]] raft& consensus) {
#ifdef RAFT_VERSION_NUMBER
  ::raft_set_capacity_threshold(&consensus, 0);
#endif
}

} // namespace dynamix::replication
