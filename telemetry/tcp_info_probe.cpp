#include "telemetry/numbered_entries.hpp"
#include "telemetry/probe.hpp"

#include <cstddef>
#include <linux/tcp.h> // netinet/tcp.h knows a tcp_info without byte counts
#include <netinet/in.h>
#include <sys/socket.h>
#include <unordered_map>

namespace dynamix::telemetry {

namespace {

constexpr std::uint8_t tcp_state_listen = 10; // the kernel's TCP_LISTEN, in no header for user space

/// A socket's counts when it was last seen.
struct seen_socket {
  std::uint64_t bytes_acked = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t retransmissions = 0;
  std::uint64_t sample = 0; ///< number of that sample
};

/// The unique number of the socket behind `descriptor`, which no later socket gets again; 0 if it is no socket.
std::uint64_t socket_cookie(int descriptor) {
  std::uint64_t cookie = 0;
  socklen_t length = sizeof(cookie);
  return getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

/// What a socket's count grew by; one that was disconnected and used again counts from 0.
std::uint64_t moved(std::uint64_t before, std::uint64_t now) {
  return now >= before ? now - before : now;
}

enum class tcp_reading { read, not_tcp, too_old };

tcp_reading read_tcp_info(int descriptor, tcp_info& info) {
  socklen_t length = sizeof(info);
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
    return tcp_reading::not_tcp;
  constexpr std::size_t needed = offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received);
  return length >= needed ? tcp_reading::read : tcp_reading::too_old;
}

class tcp_info_probe final : public probe {
public:
  std::string name() const override { return "TCP_INFO"; }

  void sample(counters& into) override {
    ++sample_;
    bool readable = true;
    double rtt_sum_seconds = 0;
    std::uint32_t rtt_sockets = 0;
    // A descriptor may be closed or reused meanwhile: reading it then fails, or reads the new socket under its own
    // cookie.
    const bool listed = for_each_numbered_entry("/proc/self/fd", [&](int descriptor, int) {
      const std::uint64_t cookie = socket_cookie(descriptor);
      tcp_info info{};
      if (cookie == 0)
        return;
      const tcp_reading reading = read_tcp_info(descriptor, info);
      readable = readable && reading != tcp_reading::too_old;
      if (reading != tcp_reading::read || info.tcpi_state == tcp_state_listen || !count(cookie, info))
        return;
      if (info.tcpi_rtt > 0) {
        rtt_sum_seconds += 1e-6 * info.tcpi_rtt;
        ++rtt_sockets;
      }
    });
    std::erase_if(sockets_, [this](const auto& entry) { return entry.second.sample != sample_; });
    into.network_valid = listed && readable;
    into.bytes_sent = bytes_sent_;
    into.bytes_received = bytes_received_;
    into.retransmissions = retransmissions_;
    into.rtt_seconds = rtt_sockets > 0 ? rtt_sum_seconds / rtt_sockets : 0;
  }

private:
  /// Adds what the socket moved since it was last seen. False for one that this sample has seen under another
  /// descriptor.
  bool count(std::uint64_t cookie, const tcp_info& info) {
    seen_socket& seen = sockets_[cookie];
    if (seen.sample == sample_)
      return false;
    bytes_sent_ += moved(seen.bytes_acked, info.tcpi_bytes_acked);
    bytes_received_ += moved(seen.bytes_received, info.tcpi_bytes_received);
    retransmissions_ += moved(seen.retransmissions, info.tcpi_total_retrans);
    seen = {info.tcpi_bytes_acked, info.tcpi_bytes_received, info.tcpi_total_retrans, sample_};
    return true;
  }

  std::unordered_map<std::uint64_t, seen_socket> sockets_; // by cookie; those of the last sample
  std::uint64_t sample_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;
  std::uint64_t retransmissions_ = 0;
};

} // namespace

std::unique_ptr<probe> make_tcp_info_probe() {
  return std::make_unique<tcp_info_probe>();
}

} // namespace dynamix::telemetry
