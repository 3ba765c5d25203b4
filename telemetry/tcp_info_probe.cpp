#include "bpf/network.h"
#include "telemetry/numbered_entries.hpp"
#include "telemetry/probe.hpp"
#include "telemetry/small_file.hpp"
#include "telemetry/socket_counts.hpp"

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstddef>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace dynamix::telemetry {

namespace {

/// The unique number of the socket behind `descriptor`, which no later socket gets again; 0 if it is not a socket.
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
    bool readable = true;
    counts_.begin();
    const bool listed =
        sockets_of_process_.look([this](int descriptor) { return !gradients_alone_ || !is_control(descriptor); });
    for (const auto& [descriptor, cookie] : sockets_of_process_.open()) {
      tcp_info info{};
      const tcp_reading reading = read_tcp_info(descriptor, info);
      readable = readable && reading != tcp_reading::too_old;
      if (reading == tcp_reading::read && info.tcpi_state != tcp_state_listen)
        counts_.add(cookie, info, [&] { return is_control(descriptor); });
    }
    counts_.end(into, listed && readable);
  }

private:
  bool is_control(int descriptor) const {
    int priority = 0;
    socklen_t length = sizeof(priority);
    if (getsockopt(descriptor, SOL_SOCKET, SO_PRIORITY, &priority, &length) == 0 && priority == gradient_priority)
      return false;
    return control_ports_[port_of(descriptor, getsockname)] || control_ports_[port_of(descriptor, getpeername)];
  }

  bool gradients_alone_;
  std::bitset<65536> control_ports_;
  open_sockets sockets_of_process_;
  socket_counts counts_;
};

} // namespace

std::unique_ptr<probe> make_tcp_info_probe(std::vector<std::uint16_t> control_ports) {
  return std::make_unique<tcp_info_probe>(control_ports, false);
}

std::unique_ptr<probe> make_gradient_tcp_info_probe(std::vector<std::uint16_t> control_ports) {
  return std::make_unique<tcp_info_probe>(control_ports, true);
}

} // namespace dynamix::telemetry
