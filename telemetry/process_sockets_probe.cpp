#include "telemetry/numbered_entries.hpp"
#include "telemetry/probe.hpp"
#include "telemetry/socket_counts.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <unordered_set>
#include <utility>

namespace dynamix::telemetry {

namespace {

constexpr double inodes_age_max_seconds = 1; ///< listing descriptors costs more than asking for all sockets
constexpr std::uint32_t wanted_states = 0xfffU & ~(1U << 10) & ~(1U << 6); ///< all but LISTEN and TIME_WAIT, of none
constexpr std::size_t answer_bytes = 32U << 10;

/// "socket:[12345]"
bool take_inode(std::string_view link, std::uint32_t& inode) {
  constexpr std::string_view prefix = "socket:[";
  if (!link.starts_with(prefix))
    return false;
  link.remove_prefix(prefix.size());
  return std::from_chars(link.data(), link.data() + link.size(), inode).ec == std::errc();
}

class process_tcp_info_probe final : public probe {
public:
  process_tcp_info_probe(int process, sockets_teller told)
      : told_(std::move(told)), descriptors_(fmt::format("/proc/{}/fd", process)),
        netlink_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {
    constexpr timeval patience{.tv_sec = 0, .tv_usec = 200'000}; // the kernel answers in the call
    if (netlink_ >= 0)
      ::setsockopt(netlink_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  process_tcp_info_probe(const process_tcp_info_probe&) = delete;
  process_tcp_info_probe& operator=(const process_tcp_info_probe&) = delete;
  ~process_tcp_info_probe() override {
    if (netlink_ >= 0)
      ::close(netlink_);
  }

  std::string name() const override { return "TCP_INFO by sock_diag"; }
  std::string problem() const override {
    return "the training process's sockets need sock_diag and " + descriptors_ + ", which its own user may read";
  }

  void sample(counters& into) override {
    counts_.begin();
    bool valid = netlink_ >= 0 && list(into.monotonic_seconds);
    for (const std::uint8_t family : {AF_INET, AF_INET6})
      valid = valid && ask(family) && take_answer();
    counts_.end(into, valid);
    if (told_)
      told_(counts_.cookies());
  }

private:
  /// The sockets of the process, by their inodes.
  bool list(double now_seconds) {
    if (listed_ && now_seconds < listed_seconds_ + inodes_age_max_seconds)
      return true;
    inodes_.clear();
    listed_seconds_ = now_seconds;
    listed_ = for_each_numbered_entry(descriptors_.c_str(), [this](int number, int directory) {
      std::array<char, 64> link{};
      std::array<char, 16> entry{};
      *std::to_chars(entry.data(), entry.data() + entry.size() - 1, number).ptr = '\0';
      const auto length = ::readlinkat(directory, entry.data(), link.data(), link.size());
      std::uint32_t inode = 0;
      if (length > 0 && take_inode({link.data(), static_cast<std::size_t>(length)}, inode))
        inodes_.insert(inode);
    });
    return listed_;
  }

  bool ask(std::uint8_t family) const {
    struct {
      nlmsghdr header;
      inet_diag_req_v2 request;
    } message{};
    message.header = {.nlmsg_len = sizeof(message),
                      .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                      .nlmsg_seq = 0,
                      .nlmsg_pid = 0};
    message.request.sdiag_family = family;
    message.request.sdiag_protocol = IPPROTO_TCP;
    message.request.idiag_ext = 1U << (INET_DIAG_INFO - 1);
    message.request.idiag_states = wanted_states;
    return ::send(netlink_, &message, sizeof(message), 0) == sizeof(message);
  }

  /// False: the kernel does not answer, or with an error.
  bool take_answer() {
    alignas(nlmsghdr) std::array<char, answer_bytes> answer;
    for (;;) {
      const auto got = ::recv(netlink_, answer.data(), answer.size(), 0);
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        return false;
      auto length = static_cast<std::uint32_t>(got);
      for (auto* one = reinterpret_cast<nlmsghdr*>(answer.data()); NLMSG_OK(one, length);
           one = NLMSG_NEXT(one, length)) {
        if (one->nlmsg_type == NLMSG_DONE)
          return true;
        if (one->nlmsg_type == NLMSG_ERROR)
          return false;
        take(*one);
      }
    }
  }

  void take(nlmsghdr& one) {
    if (one.nlmsg_type != SOCK_DIAG_BY_FAMILY || one.nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg)))
      return;
    const auto* socket = static_cast<const inet_diag_msg*>(NLMSG_DATA(&one));
    if (!inodes_.contains(socket->idiag_inode))
      return;
    auto length = static_cast<std::uint32_t>(one.nlmsg_len - NLMSG_LENGTH(sizeof(*socket)));
    const auto* first = reinterpret_cast<const char*>(socket + 1);
    for (auto* each = reinterpret_cast<const rtattr*>(first); RTA_OK(each, length); each = RTA_NEXT(each, length)) {
      if (each->rta_type != INET_DIAG_INFO)
        continue;
      tcp_info info{};
      std::memcpy(&info, RTA_DATA(each), std::min<std::size_t>(sizeof(info), RTA_PAYLOAD(each)));
      const auto cookie = std::uint64_t{socket->id.idiag_cookie[1]} << 32 | std::uint64_t{socket->id.idiag_cookie[0]};
      counts_.add(cookie, info, [] { return false; });
    }
  }

  sockets_teller told_;
  std::string descriptors_;
  int netlink_;
  std::unordered_set<std::uint32_t> inodes_;
  bool listed_ = false;
  double listed_seconds_ = 0;
  socket_counts counts_;
};

} // namespace

std::unique_ptr<probe> make_process_tcp_info_probe(int process, sockets_teller told) {
  return std::make_unique<process_tcp_info_probe>(process, std::move(told));
}

} // namespace dynamix::telemetry
