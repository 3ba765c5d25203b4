// Counts the TCP traffic of one cgroup: bytes and packets by cgroup_skb, RTT, retransmissions, congestion windows and
// states by sock_ops. Or, of some sockets in the cgroup, what only sock_ops sees: user space names them by their
// cookies, since no program may ask whose a socket is. Needs CAP_BPF and CAP_NET_ADMIN. Lets every packet pass.

#include "bpf/network.h"

#include "bpf/kernel_types.h"
#include "bpf/timed_run.h"

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#define AF_INET 2

struct network_slot slots[network_slots] = {};
__u8 control_ports[65536 / 8] = {}; ///< a bit a port: connections that carry no gradients
__u64 events_dropped = 0;
__u32 by_cookie = 0; ///< only the sockets in `followed` count
__u64 followed[1 << followed_bits] = {};

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 64 * 1024);
} events SEC(".maps");

static __always_inline struct network_slot* own_slot(void) {
  return &slots[bpf_get_smp_processor_id() % network_slots];
}

/// `port` in host order.
static __always_inline bool is_control(__u16 port) {
  return control_ports[port / 8] & (1 << port % 8);
}

static __always_inline bool has_control_port(__u16 local_port, __u16 remote_port) {
  return is_control(local_port) || is_control(remote_port);
}

/// Whether its process has said that the connection carries gradients. It says so once its peer is proven; what passed
/// before counts as control. Null: it is over, or not there yet.
static __always_inline bool is_of_gradients(struct bpf_sock* full) {
  return full && full->priority == gradient_priority;
}

static __always_inline bool is_packet_of_gradients(struct __sk_buff* packet) {
  struct bpf_sock* socket = packet->sk;
  return socket && is_of_gradients(bpf_sk_fullsock(socket));
}

static __always_inline void count_bytes(__u64* total, struct network_slot* slot, struct tcphdr* tcp,
                                        struct __sk_buff* packet, __u32 bytes) {
  __sync_fetch_and_add(total, bytes);
  if (has_control_port(bpf_ntohs(tcp->source), bpf_ntohs(tcp->dest)) && !is_packet_of_gradients(packet))
    __sync_fetch_and_add(&slot->control_bytes, bytes);
}

/// Keeps the compiler from making one addition of those in two branches, whose sum would not be at a constant place.
#define here(pointer) asm volatile("" : "+r"(pointer))

/// The TCP header of a packet and the length of all its headers; null for what is no TCP or has IP
/// options, which TCP does without. Found at constant places, since others take CAP_PERFMON or a helper's time.
static __always_inline struct tcphdr* find_tcp(struct __sk_buff* packet, __u32* headers) {
  void* begin = (void*)(long)packet->data;
  void* end = (void*)(long)packet->data_end;
  struct tcphdr* tcp;
  if (packet->protocol == bpf_htons(ETH_P_IP)) {
    struct iphdr* header = begin;
    tcp = (void*)(header + 1);
    here(tcp);
    if ((void*)(tcp + 1) > end || header->protocol != IPPROTO_TCP || header->ihl * 4 != sizeof(*header))
      return 0;
    *headers = sizeof(*header) + tcp->doff * 4;
  } else {
    struct ipv6hdr* header = begin;
    tcp = (void*)(header + 1);
    here(tcp);
    if ((void*)(tcp + 1) > end || header->nexthdr != IPPROTO_TCP)
      return 0;
    *headers = sizeof(*header) + tcp->doff * 4;
  }
  return tcp;
}

SEC("cgroup_skb/egress")
int count_sent(struct __sk_buff* packet) {
  struct network_slot* slot = own_slot();
  __u64 began_ns = begin_run(&slot->cost);
  __u32 headers = 0;
  struct tcphdr* tcp = find_tcp(packet, &headers);
  if (tcp) {
    __u32 segments = packet->gso_segs > 1 ? packet->gso_segs : 1;
    // Atomic, since an acknowledgement may be sent in an interrupt of this very program.
    __sync_fetch_and_add(&slot->packets_sent, segments);
    if (packet->len > headers) {
      count_bytes(&slot->bytes_sent, slot, tcp, packet, packet->len - headers);
      __sync_fetch_and_add(&slot->segments_sent, segments);
    }
  }
  end_run(&slot->cost, began_ns);
  return 1;
}

SEC("cgroup_skb/ingress")
int count_received(struct __sk_buff* packet) {
  struct network_slot* slot = own_slot();
  __u64 began_ns = begin_run(&slot->cost);
  __u32 headers = 0;
  struct tcphdr* tcp = find_tcp(packet, &headers);
  if (tcp) {
    __sync_fetch_and_add(&slot->packets_received, packet->gso_segs > 1 ? packet->gso_segs : 1);
    if (packet->len > headers)
      count_bytes(&slot->bytes_received, slot, tcp, packet, packet->len - headers);
  }
  end_run(&slot->cost, began_ns);
  return 1;
}

/// The bucket of an RTT: its octave, and the three bits behind the leading one.
static __always_inline __u32 rtt_bucket(__u32 rtt_us) {
  __u32 octave = 0;
  __u32 rest = rtt_us;
  if (rest >> 16) {
    octave += 16;
    rest >>= 16;
  }
  if (rest >> 8) {
    octave += 8;
    rest >>= 8;
  }
  if (rest >> 4) {
    octave += 4;
    rest >>= 4;
  }
  if (rest >> 2) {
    octave += 2;
    rest >>= 2;
  }
  octave += rest >> 1;
  __u32 fraction = octave >= 3 ? rtt_us >> (octave - 3) : rtt_us << (3 - octave);
  return octave * rtt_octave_buckets + (fraction & (rtt_octave_buckets - 1));
}

static __always_inline void tell(struct bpf_sock_ops* socket, __u32 kind, __u32 segments) {
  struct network_event* event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
  if (!event) {
    __sync_fetch_and_add(&events_dropped, 1);
    return;
  }
  event->at_ns = bpf_ktime_get_ns();
  event->kind = kind;
  event->family = socket->family;
  event->address[0] = socket->remote_ip6[0];
  event->address[1] = socket->remote_ip6[1];
  event->address[2] = socket->remote_ip6[2];
  event->address[3] = socket->remote_ip6[3];
  if (event->family == AF_INET)
    event->address[0] = socket->remote_ip4;
  event->local_port = socket->local_port;
  event->remote_port = bpf_ntohl(socket->remote_port);
  event->segments = segments;
  bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void count_rtt(struct bpf_sock_ops* socket, struct network_slot* slot) {
  // The sample itself since Linux 6.10; before, only the smoothed one.
  __u32 rtt_us = socket->args[0] ? socket->args[0] : socket->srtt_us >> 3;
  __sync_fetch_and_add(&slot->rtt_samples, 1);
  __sync_fetch_and_add(&slot->rtt_sum_us, rtt_us);
  __sync_fetch_and_add(&slot->congestion_window_sum, socket->snd_cwnd);
  // Through memory, so that the verifier forgets by which way the index came: without CAP_PERFMON it refuses one whose
  // range is another on each.
  volatile __u32* last = &slot->rtt_bucket;
  *last = rtt_bucket(rtt_us);
  __sync_fetch_and_add(&slot->rtt_histogram[*last % rtt_buckets], 1);
}

static __always_inline void change_state(struct bpf_sock_ops* socket, struct network_slot* slot) {
  __u32 before = socket->args[0];
  if (socket->args[1] != BPF_TCP_CLOSE || before == BPF_TCP_SYN_SENT || before == BPF_TCP_SYN_RECV ||
      before == BPF_TCP_NEW_SYN_RECV || before == BPF_TCP_LISTEN)
    return;
  // An orderly end goes through FIN_WAIT or LAST_ACK.
  if (before != BPF_TCP_ESTABLISHED && before != BPF_TCP_CLOSE_WAIT)
    return;
  __sync_fetch_and_add(&slot->resets, 1);
  tell(socket, connection_reset, 0);
}

static __always_inline bool counts(struct bpf_sock_ops* socket) {
  if (!by_cookie)
    return true;
  __u64 cookie = bpf_get_socket_cookie(socket);
  for (__u32 i = 0; i < followed_tries; ++i)
    if (followed[followed_slot(cookie, i)] == cookie)
      return true;
  return false;
}

SEC("sockops")
int watch_connection(struct bpf_sock_ops* socket) {
  struct network_slot* slot = own_slot();
  __u64 began_ns = begin_run(&slot->cost);
  switch (socket->op) {
  case BPF_SOCK_OPS_RTT_CB:
    if ((!has_control_port(socket->local_port, bpf_ntohl(socket->remote_port)) || is_of_gradients(socket->sk)) &&
        counts(socket))
      count_rtt(socket, slot);
    break;
  case BPF_SOCK_OPS_RETRANS_CB:
    if (!counts(socket))
      break;
    __sync_fetch_and_add(&slot->retransmissions, socket->args[1]);
    // Told at each doubling, so that a connection in trouble fills no buffer.
    if (socket->retrans_out >= retransmission_burst && (socket->retrans_out & (socket->retrans_out - 1)) == 0)
      tell(socket, retransmission_burst_seen, socket->retrans_out);
    break;
  case BPF_SOCK_OPS_STATE_CB:
    if (counts(socket))
      change_state(socket, slot);
    break;
  case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
  case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
  case BPF_SOCK_OPS_TCP_CONNECT_CB:
    // Other programs of the group, or of one above, have set theirs.
    bpf_sock_ops_cb_flags_set(socket, socket->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG |
                                          BPF_SOCK_OPS_RETRANS_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG);
    break;
  default:
    break;
  }
  end_run(&slot->cost, began_ns);
  return 1;
}

char LICENSE[] SEC("license") = "GPL";
