#include "telemetry/numbered_entries.hpp"
#include "telemetry/probe.hpp"
#include "telemetry/small_file.hpp"

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstddef>
#include <linux/tcp.h> // netinet/tcp.h knows a tcp_info without byte counts
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unordered_map>

namespace dynamix::telemetry {

namespace {

constexpr std::uint8_t tcp_state_listen = 10; // the kernel's TCP_LISTEN, in no header for user space

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

/// The unique number of the socket behind `descriptor`, which no later socket gets again; 0 if it is no socket.
std::uint64_t socket_cookie(int descriptor) {
  std::uint64_t cookie = 0;
  socklen_t length = sizeof(cookie);
  return getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

/// The port of one end of a connection, by getsockname or getpeername; 0 where it has none.
template <class Ask>
std::uint16_t port_of(int descriptor, Ask ask) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (ask(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return 0;
  if (address.ss_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port) : 0;
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

/// The TCP sockets of the process. Listing its descriptors costs more than all the rest, so that is done only where one
/// may have come.
class open_sockets {
public:
  struct open_socket {
    int descriptor = -1;
    std::uint64_t cookie = 0;
  };

  /// Those that `wanted(descriptor)` says yes to. False when they cannot be listed. A descriptor may be closed or
  /// reused meanwhile: the next look sees it.
  template <class Wanted>
  bool look(Wanted wanted) {
    const double now_seconds = monotonic_seconds();
    struct stat status {};
    // Since Linux 6.2 the directory's size is the number of descriptors.
    const auto descriptors = fstat(directory_.descriptor(), &status) == 0 ? status.st_size : 0;
    const auto is_open = [](const open_socket& one) { return socket_cookie(one.descriptor) == one.cookie; };
    if (descriptors > 0 && descriptors == descriptors_ && now_seconds < listed_seconds_ + listed_seconds_max &&
        std::ranges::all_of(open_, is_open))
      return true;
    open_.clear();
    descriptors_ = descriptors;
    listed_seconds_ = now_seconds;
    if (descriptors == 0)
      return for_each_numbered_entry("/proc/self/fd", [&](int descriptor, int) { add(descriptor, wanted); });
    // Asking of each number whether it is open takes a tenth of what reading the directory does.
    auto unseen = descriptors;
    for (int descriptor = 0; unseen > 0 && descriptor < entries_max; ++descriptor)
      unseen -= add(descriptor, wanted) || errno != EBADF ? 1 : 0;
    return true;
  }

  const std::vector<open_socket>& open() const { return open_; }

private:
  static constexpr double listed_seconds_max = 1; ///< a socket may have come as something else went

  /// Whether it is a socket; if not, errno says why.
  template <class Wanted>
  bool add(int descriptor, Wanted wanted) {
    const auto cookie = socket_cookie(descriptor);
    if (cookie == 0)
      return false;
    tcp_info info{};
    if (read_tcp_info(descriptor, info) != tcp_reading::not_tcp && info.tcpi_state != tcp_state_listen &&
        wanted(descriptor))
      open_.push_back({descriptor, cookie});
    return true;
  }

  kept_file directory_{AT_FDCWD, "/proc/self/fd"};
  std::vector<open_socket> open_;
  std::int64_t descriptors_ = 0;
  double listed_seconds_ = 0;
};

class tcp_info_probe final : public probe {
public:
  tcp_info_probe(const std::vector<std::uint16_t>& control_ports, bool gradients_alone)
      : gradients_alone_(gradients_alone) {
    for (const auto port : control_ports)
      control_ports_.set(port);
  }

  std::string name() const override { return "TCP_INFO"; }
  std::string problem() const override { return "TCP_INFO needs /proc/self/fd and Linux 4.2 or later"; }

  void sample(counters& into) override {
    ++sample_;
    bool readable = true;
    rtts_seconds_.clear();
    double all_rtts_seconds = 0;
    std::uint32_t with_rtt = 0;
    std::uint64_t windows = 0;
    std::uint32_t connections = 0;
    const bool listed =
        sockets_of_process_.look([this](int descriptor) { return !gradients_alone_ || !is_control(descriptor); });
    for (const auto& [descriptor, cookie] : sockets_of_process_.open()) {
      tcp_info info{};
      const tcp_reading reading = read_tcp_info(descriptor, info);
      readable = readable && reading != tcp_reading::too_old;
      if (reading != tcp_reading::read || info.tcpi_state == tcp_state_listen)
        continue;
      auto& seen = sockets_[cookie];
      if (seen.sample == sample_)
        continue; // by another descriptor
      const bool control = count(descriptor, seen, info);
      if (info.tcpi_rtt == 0)
        continue;
      all_rtts_seconds += 1e-6 * info.tcpi_rtt;
      ++with_rtt;
      if (control)
        continue;
      rtts_seconds_.push_back(1e-6 * info.tcpi_rtt);
      windows += info.tcpi_snd_cwnd;
      ++connections;
    }
    std::erase_if(sockets_, [this](const auto& entry) { return entry.second.sample != sample_; });
    totals_.network_valid = listed && readable;
    totals_.rtt_seconds = with_rtt > 0 ? all_rtts_seconds / with_rtt : 0;
    totals_.connections = connections;
    totals_.congestion_window_segments = connections > 0 ? static_cast<double>(windows) / connections : 0;
    std::ranges::sort(rtts_seconds_);
    totals_.rtt_p50_seconds = rtts_seconds_.empty() ? 0 : rtts_seconds_[(rtts_seconds_.size() - 1) / 2];
    totals_.rtt_p99_seconds = rtts_seconds_.empty() ? 0 : rtts_seconds_[(rtts_seconds_.size() * 99 - 1) / 100];
    write(into);
  }

private:
  bool is_control(int descriptor) const {
    return control_ports_[port_of(descriptor, getsockname)] || control_ports_[port_of(descriptor, getpeername)];
  }

  /// Adds what the socket moved since it was last seen. Returns whether it carries no gradients.
  bool count(int descriptor, seen_socket& seen, const tcp_info& info) {
    if (seen.sample == 0)
      seen.control = is_control(descriptor);
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
    return seen.control;
  }

  void write(counters& into) const {
    into.network_valid = totals_.network_valid;
    into.network_source = messages::signal_source::unprivileged;
    into.bytes_sent = totals_.bytes_sent;
    into.bytes_received = totals_.bytes_received;
    into.control_bytes = totals_.control_bytes;
    into.segments_sent = totals_.segments_sent;
    into.retransmissions = totals_.retransmissions;
    into.sender_blocked_seconds = totals_.sender_blocked_seconds;
    into.receiver_blocked_seconds = totals_.receiver_blocked_seconds;
    into.rtt_seconds = totals_.rtt_seconds;
    into.rtt_p50_seconds = totals_.rtt_p50_seconds;
    into.rtt_p99_seconds = totals_.rtt_p99_seconds;
    into.congestion_window_segments = totals_.congestion_window_segments;
    into.connections = totals_.connections;
  }

  bool gradients_alone_;
  std::bitset<65536> control_ports_;
  open_sockets sockets_of_process_;
  std::unordered_map<std::uint64_t, seen_socket> sockets_; // by cookie; those of the last sample
  std::vector<double> rtts_seconds_;                       // of the last sample, of connections that carry gradients
  std::uint64_t sample_ = 0;
  counters totals_; // the network's fields
};

} // namespace

std::unique_ptr<probe> make_tcp_info_probe(std::vector<std::uint16_t> control_ports) {
  return std::make_unique<tcp_info_probe>(control_ports, false);
}

std::unique_ptr<probe> make_gradient_tcp_info_probe(std::vector<std::uint16_t> control_ports) {
  return std::make_unique<tcp_info_probe>(control_ports, true);
}

} // namespace dynamix::telemetry
