#pragma once

/// What a service manager listens on, and the environment that names it, as long as it lives.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace dynamix::node::testing {

class notify_socket {
public:
  /// `name`: a path, or with '@' before it an abstract name.
  explicit notify_socket(const std::string& name) : descriptor_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@')
      address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), size), 0) << name;
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  notify_socket(const notify_socket&) = delete;
  notify_socket& operator=(const notify_socket&) = delete;
  ~notify_socket() {
    for (const auto* variable : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
      ::unsetenv(variable);
    ::close(descriptor_);
  }

  /// The next that was told; empty where there is none.
  std::string heard() const {
    std::array<char, 1000> bytes{};
    const auto count = ::recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    return {bytes.data(), static_cast<std::size_t>(std::max<::ssize_t>(0, count))};
  }

private:
  int descriptor_;
};

} // namespace dynamix::node::testing
