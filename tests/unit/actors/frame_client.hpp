#pragma once

/// A training process as its agent sees it, frame by frame: what no client of ours would do, it can.

#include "messages/codec.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

namespace dynamix::testing {

class frame_client {
public:
  /// Connects; `connected` tells whether it could.
  explicit frame_client(const std::string& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const std::filesystem::path full(path);
    const int directory = ::open(full.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    const auto name = "/proc/self/fd/" + std::to_string(directory) + "/" + full.filename().string();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.c_str(), std::min(name.size(), sizeof(address.sun_path) - 1));
    connected_ = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(directory);
  }
  frame_client(const frame_client&) = delete;
  frame_client& operator=(const frame_client&) = delete;
  ~frame_client() { end(); }

  bool connected() const { return connected_; }
  int descriptor() const { return descriptor_; }
  void end() {
    if (descriptor_ >= 0)
      ::close(std::exchange(descriptor_, -1));
  }

  void send_bytes(const void* bytes, std::size_t size) const {
    [[maybe_unused]] const auto sent = ::send(descriptor_, bytes, size, MSG_NOSIGNAL);
  }
  void send(const messages::any_message& message) const {
    const auto encoded = messages::encode(message);
    ASSERT_TRUE(encoded) << encoded.error().text;
    const auto words = encoded->view();
    const auto count = static_cast<std::uint32_t>(words.size());
    send_bytes(&count, sizeof(count));
    send_bytes(words.data(), words.size_bytes());
  }

  /// The next message, waited for; nothing where none comes in time, or the connection has ended (`ended`).
  std::optional<messages::any_message> receive(std::chrono::milliseconds patience = std::chrono::seconds(60)) {
    const auto until = std::chrono::steady_clock::now() + patience;
    std::uint32_t count = 0;
    if (!read_exactly(&count, sizeof(count), until))
      return std::nullopt;
    std::vector<std::uint64_t> words(count);
    if (!read_exactly(words.data(), words.size() * sizeof(std::uint64_t), until))
      return std::nullopt;
    auto decoded = messages::decode(words);
    EXPECT_TRUE(decoded) << decoded.error().text;
    return decoded ? std::optional(*decoded) : std::nullopt;
  }
  /// The next message of one kind; others before it are passed over.
  template <class T>
  std::optional<T> await(std::chrono::milliseconds patience = std::chrono::seconds(60)) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < until) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      auto message = receive(left);
      if (!message)
        return std::nullopt;
      if (auto* found = std::get_if<T>(&*message))
        return std::move(*found);
    }
    return std::nullopt;
  }
  bool ended() const { return ended_; }

  /// Says hello; the agent's answer.
  messages::client_welcome greet(std::uint32_t members, std::uint32_t position = 0, std::uint64_t incarnation = 1,
                                 std::uint32_t protocol = messages::newest_protocol) {
    send(messages::client_hello{.protocol = protocol,
                                .position = position,
                                .members = members,
                                .incarnation = incarnation,
                                .newest_protocol = protocol});
    const auto answer = await<messages::client_welcome>();
    EXPECT_TRUE(answer.has_value());
    return answer.value_or(messages::client_welcome{.verdict = messages::client_verdict::not_served, .detail = {}});
  }
  void beat(std::uint64_t steps, std::uint64_t incarnation = 1) const {
    send(messages::heartbeat{.incarnation = incarnation, .steps = steps});
  }

private:
  bool read_exactly(void* to, std::size_t size, std::chrono::steady_clock::time_point until) {
    auto* next = static_cast<char*>(to);
    while (size > 0) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
      pollfd one{.fd = descriptor_, .events = POLLIN, .revents = 0};
      if (left <= 0 || ::poll(&one, 1, static_cast<int>(left)) <= 0)
        return false;
      const auto got = ::recv(descriptor_, next, size, 0);
      if (got <= 0) {
        ended_ = true;
        return false;
      }
      next += got;
      size -= static_cast<std::size_t>(got);
    }
    return true;
  }

  int descriptor_;
  bool connected_ = false;
  bool ended_ = false;
};

} // namespace dynamix::testing
