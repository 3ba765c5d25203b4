#include "node/launch/service_manager.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace dynamix::node {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, value);
  return failed == std::errc() && stop == end && !text.empty() ? std::optional(value) : std::nullopt;
}

} // namespace

service_manager::service_manager() : socket_(variable("NOTIFY_SOCKET")) {
  if (socket_.size() < 2 || (socket_[0] != '/' && socket_[0] != '@') || socket_.size() >= sizeof(sockaddr_un::sun_path))
    socket_.clear();
  const auto for_process = variable("WATCHDOG_PID");
  if (!for_process.empty() && number(for_process) != ::getpid())
    return; // a parent's
  const auto microseconds = number(variable("WATCHDOG_USEC")).value_or(0);
  if (!socket_.empty() && microseconds > 0)
    watchdog_interval_ = std::chrono::milliseconds(std::max<std::int64_t>(1, microseconds / 2000));
}

void service_manager::tell(const std::string& lines) const {
  if (socket_.empty())
    return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_[0] == '@')
    address.sun_path[0] = '\0';
  const int sender = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (sender < 0)
    return;
  ::sendto(sender, lines.data(), lines.size(), MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size()));
  ::close(sender);
}

} // namespace dynamix::node
