#pragma once

/// What the network programs count, shared with user space. User space maps it into its memory and reads it there.

#include "bpf/cost.h"

#include <linux/types.h>

enum { gradient_priority = 2 }; ///< SO_PRIORITY of links that carry gradients (links/pump.hpp)
enum { network_slots = 64 };    ///< CPUs beyond share one; a power of 2
enum { rtt_octave_buckets = 8 }; ///< buckets of the histogram a doubling of the RTT
enum { rtt_buckets = 32 * rtt_octave_buckets }; ///< a power of 2
enum { retransmission_burst = 32 };             ///< segments of one connection in flight for the second time
enum { followed_bits = 12 };                    ///< the table of another process's sockets has 2^12 slots
enum { followed_tries = 8 };                    ///< of them may hold a certain one

/// Where a socket's cookie may be in that table. Cookies are numbered by CPU in batches, so neighbours are common.
static inline __u32 followed_slot(__u64 cookie, __u32 attempt) {
  return ((__u32)((cookie * 0x9e3779b97f4a7c15ULL) >> (64 - followed_bits)) + attempt) & ((1U << followed_bits) - 1);
}

/// Of one CPU. Only rising counts.
struct network_slot {
  struct program_cost cost;
  __u64 bytes_sent; ///< of data, what is sent again too
  __u64 bytes_received;
  __u64 control_bytes; ///< of both, on connections that carry no gradients
  __u64 packets_sent;  ///< segments as the wire sees them, with data or without
  __u64 packets_received;
  __u64 segments_sent; ///< with data
  __u64 retransmissions;
  __u64 resets;
  __u64 rtt_samples; ///< of connections that carry gradients, as is the rest
  __u64 rtt_sum_us;
  __u64 congestion_window_sum; ///< segments, over the RTT samples
  __u32 rtt_histogram[rtt_buckets];
  __u32 rtt_bucket; ///< the last one
} __attribute__((aligned(128)));

enum network_event_kind { connection_reset = 1, retransmission_burst_seen };

/// A rare event, for the log.
struct network_event {
  __u64 at_ns; ///< CLOCK_MONOTONIC
  __u32 kind;
  __u32 family;     ///< AF_INET or AF_INET6
  __u32 address[4]; ///< of the peer, as on the wire; IPv4 in the first
  __u16 local_port;
  __u16 remote_port;
  __u32 segments; ///< of a burst
};
