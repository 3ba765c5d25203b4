#pragma once

#include "messages/codec.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dynamix::client {

/// The agent's side of the socket, which does what a test says and nothing by itself.
class scripted_agent {
public:
  static constexpr int patience_ms = 20'000; ///< what never comes is a failure, not a hang

  /// Listens at `path`, in the directory of that name if it is too long for an address.
  explicit scripted_agent(std::string path) : path_(std::move(path)) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(std::filesystem::path(path_).parent_path());
    const auto name = std::filesystem::path(path_).filename().string();
    std::memcpy(address.sun_path, name.data(), name.size());
    ::unlink(name.c_str());
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    std::filesystem::current_path(before);
  }
  scripted_agent(const scripted_agent&) = delete;
  ~scripted_agent() {
    hang_up();
    ::close(listener_);
    ::unlink(path_.c_str());
  }

  bool accept(int timeout_ms = patience_ms) {
    if (!readable(listener_, timeout_ms))
      return false;
    connection_ = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    return connection_ >= 0;
  }

  void hang_up() {
    if (connection_ >= 0)
      ::close(std::exchange(connection_, -1));
  }

  void send(const messages::any_message& what) {
    const auto frame = messages::encode(what);
    ASSERT_TRUE(frame) << frame.error().text;
    const auto words = frame->view();
    std::vector<std::uint8_t> bytes(4 + words.size_bytes());
    const auto count = static_cast<std::uint32_t>(words.size());
    for (std::size_t i = 0; i < 4; ++i)
      bytes[i] = static_cast<std::uint8_t>(count >> (8 * i));
    std::memcpy(bytes.data() + 4, words.data(), words.size_bytes());
    send_bytes(bytes);
  }

  void send_bytes(const std::vector<std::uint8_t>& bytes) {
    ASSERT_EQ(::send(connection_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  /// The next message; nothing at the connection's end or when none comes in time.
  std::optional<messages::any_message> read(int timeout_ms = patience_ms) {
    std::uint8_t head[4];
    if (!read_bytes(head, sizeof head, timeout_ms))
      return std::nullopt;
    const std::uint32_t count = head[0] | head[1] << 8 | head[2] << 16 | static_cast<std::uint32_t>(head[3]) << 24;
    EXPECT_LE(count, 8192U);
    std::vector<std::uint64_t> words(count);
    if (!read_bytes(words.data(), count * sizeof(std::uint64_t), timeout_ms))
      return std::nullopt;
    auto decoded = messages::decode(words);
    EXPECT_TRUE(decoded) << decoded.error().text;
    return decoded ? std::optional(*decoded) : std::nullopt;
  }

  /// The next message of type T; those of other types before it are passed over.
  template <class T>
  std::optional<T> read_a(int timeout_ms = patience_ms) {
    for (int messages = 0; messages < 10'000; ++messages) {
      auto next = read(timeout_ms);
      if (!next)
        return std::nullopt;
      if (auto* found = std::get_if<T>(&*next))
        return std::move(*found);
    }
    return std::nullopt;
  }

private:
  static bool readable(int descriptor, int timeout_ms) {
    pollfd entry{descriptor, POLLIN, 0};
    return ::poll(&entry, 1, timeout_ms) == 1;
  }

  bool read_bytes(void* to, std::size_t count, int timeout_ms) {
    auto* bytes = static_cast<char*>(to);
    while (count > 0) {
      if (!readable(connection_, timeout_ms))
        return false;
      const auto got = ::recv(connection_, bytes, count, 0);
      if (got <= 0)
        return false;
      bytes += got;
      count -= static_cast<std::size_t>(got);
    }
    return true;
  }

  std::string path_;
  int listener_ = -1;
  int connection_ = -1;
};

inline messages::client_welcome welcome_example(std::uint32_t rank = 0) {
  return {.host = "ana",
          .rank = rank,
          .workers = 2,
          .window_steps = 10,
          .lowest_batch = 4,
          .highest_batch = 64,
          .initial_batch = 16,
          .rule = messages::rate_rule::linear,
          .seed = 42};
}

} // namespace dynamix::client
