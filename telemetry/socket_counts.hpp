#pragma once

#include "telemetry/probe.hpp"

#include <algorithm>
#include <cstdint>
#include <linux/tcp.h> // netinet/tcp.h knows a tcp_info without byte counts
#include <unordered_map>
#include <vector>

namespace dynamix::telemetry {

inline constexpr std::uint8_t tcp_state_listen = 10; ///< the kernel's TCP_LISTEN, in no header for user space

/// What a process's sockets have moved, from what TCP_INFO says of each at every sample: the counts of sockets that
/// have gone are kept, so that totals never fall.
class socket_counts {
public:
  void begin() {
    ++sample_;
    rtts_seconds_.clear();
    all_rtts_seconds_ = 0;
    with_rtt_ = 0;
    windows_ = 0;
    connections_ = 0;
  }

  /// One open socket of this sample, by the cookie that no later one gets again. `is_control` is asked whether it
  /// carries no gradients, until it does. Counts a socket once, however many descriptors it has.
  template <class IsControl>
  void add(std::uint64_t cookie, const tcp_info& info, IsControl is_control) {
    auto& seen = sockets_[cookie];
    if (seen.sample == sample_)
      return;
    if (seen.sample == 0 || seen.control)
      seen.control = is_control();
    count(seen, info);
    if (info.tcpi_rtt == 0)
      return;
    all_rtts_seconds_ += 1e-6 * info.tcpi_rtt;
    ++with_rtt_;
    if (seen.control)
      return;
    rtts_seconds_.push_back(1e-6 * info.tcpi_rtt);
    windows_ += info.tcpi_snd_cwnd;
    ++connections_;
  }

  /// Of the sockets of this sample.
  std::vector<std::uint64_t> cookies() const {
    std::vector<std::uint64_t> open;
    for (const auto& [cookie, seen] : sockets_)
      if (seen.sample == sample_)
        open.push_back(cookie);
    return open;
  }

  /// Writes the fields of the network.
  void end(counters& into, bool valid) {
    std::erase_if(sockets_, [this](const auto& entry) { return entry.second.sample != sample_; });
    std::ranges::sort(rtts_seconds_);
    into.network_valid = valid;
    into.network_source = messages::signal_source::unprivileged;
    into.bytes_sent = totals_.bytes_sent;
    into.bytes_received = totals_.bytes_received;
    into.control_bytes = totals_.control_bytes;
    into.segments_sent = totals_.segments_sent;
    into.retransmissions = totals_.retransmissions;
    into.sender_blocked_seconds = totals_.sender_blocked_seconds;
    into.receiver_blocked_seconds = totals_.receiver_blocked_seconds;
    into.rtt_seconds = with_rtt_ > 0 ? all_rtts_seconds_ / with_rtt_ : 0;
    into.rtt_p50_seconds = rtts_seconds_.empty() ? 0 : rtts_seconds_[(rtts_seconds_.size() - 1) / 2];
    into.rtt_p99_seconds = rtts_seconds_.empty() ? 0 : rtts_seconds_[(rtts_seconds_.size() * 99 - 1) / 100];
    into.congestion_window_segments = connections_ > 0 ? static_cast<double>(windows_) / connections_ : 0;
    into.connections = connections_;
  }

private:
  /// A socket's counts when it was last seen.
  struct seen_socket {
    std::uint64_t bytes_acked = 0;
    std::uint64_t bytes_received = 0;
    std::uint64_t retransmissions = 0;
    std::uint64_t segments_sent = 0;
    std::uint64_t blocked_us = 0;
    std::uint64_t receiver_blocked_us = 0;
    std::uint64_t sample = 0; ///< number of that sample; 0: not seen before
    bool control = false;     ///< carries no gradients
  };

  /// What a socket's count grew by; one that was disconnected and used again counts from 0.
  static std::uint64_t moved(std::uint64_t before, std::uint64_t now) { return now >= before ? now - before : now; }

  /// Adds what the socket moved since it was last seen.
  void count(seen_socket& seen, const tcp_info& info) {
    const auto sent = moved(seen.bytes_acked, info.tcpi_bytes_acked);
    const auto received = moved(seen.bytes_received, info.tcpi_bytes_received);
    const std::uint64_t busy_us = info.tcpi_busy_time;
    const auto receiver_us = std::min<std::uint64_t>(busy_us, info.tcpi_rwnd_limited);
    totals_.bytes_sent += sent;
    totals_.bytes_received += received;
    totals_.retransmissions += moved(seen.retransmissions, info.tcpi_total_retrans);
    totals_.segments_sent += moved(seen.segments_sent, info.tcpi_data_segs_out);
    if (seen.control) {
      totals_.control_bytes += sent + received;
    } else {
      totals_.sender_blocked_seconds += 1e-6 * static_cast<double>(moved(seen.blocked_us, busy_us - receiver_us));
      totals_.receiver_blocked_seconds += 1e-6 * static_cast<double>(moved(seen.receiver_blocked_us, receiver_us));
    }
    seen = {info.tcpi_bytes_acked,
            info.tcpi_bytes_received,
            info.tcpi_total_retrans,
            info.tcpi_data_segs_out,
            busy_us - receiver_us,
            receiver_us,
            sample_,
            seen.control};
  }

  std::unordered_map<std::uint64_t, seen_socket> sockets_; ///< by cookie; those of the last sample
  std::uint64_t sample_ = 0;
  counters totals_; ///< the network's fields
  // Of this sample.
  std::vector<double> rtts_seconds_; ///< of connections that carry gradients
  double all_rtts_seconds_ = 0;
  std::uint32_t with_rtt_ = 0;
  std::uint64_t windows_ = 0;
  std::uint32_t connections_ = 0;
};

} // namespace dynamix::telemetry
