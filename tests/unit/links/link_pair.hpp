#pragma once

/// The hosts ada and ben, of which ada has a door.

#include "links/door.hpp"
#include "links/pump.hpp"
#include "storage/splitmix64.hpp"
#include "tests/unit/links/temporary_keys.hpp"
#include "tests/unit/links/told_lines.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace dynamix::links::testing {

inline std::string random_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  storage::splitmix64 numbers(size);
  for (auto& byte : bytes)
    byte = static_cast<char>(numbers.next());
  return bytes;
}

class plain_end {
public:
  explicit plain_end(int number) : number_(number) {}
  plain_end(const plain_end&) = delete;
  ~plain_end() { close(); }
  void close() {
    if (number_ >= 0)
      ::close(number_);
    number_ = -1;
  }
  int get() const { return number_; }
  /// Blocks as long as there is no room. False when the other side is gone.
  bool write(const std::string& bytes) const {
    std::size_t written = 0;
    while (written < bytes.size()) {
      pollfd waiting{.fd = number_, .events = POLLOUT, .revents = 0};
      if (::poll(&waiting, 1, 30000) != 1)
        return false;
      const auto count = ::send(number_, bytes.data() + written, bytes.size() - written, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN)
        return false;
      written += count < 0 ? 0 : static_cast<std::size_t>(count);
    }
    return true;
  }
  /// Reads so many bytes, or as many as come before the end or 30 s without any.
  std::string read(std::size_t size) const {
    std::string bytes;
    while (bytes.size() < size) {
      pollfd waiting{.fd = number_, .events = POLLIN, .revents = 0};
      std::string more(std::min<std::size_t>(size - bytes.size(), 65536), '\0');
      if (::poll(&waiting, 1, 30000) != 1)
        break;
      const auto count = ::recv(number_, more.data(), more.size(), MSG_DONTWAIT);
      if (count <= 0)
        break;
      bytes.append(more.data(), static_cast<std::size_t>(count));
    }
    return bytes;
  }

private:
  int number_;
};

class LinkPair : public ::testing::Test {
protected:
  void SetUp() override { ASSERT_EQ(make_keys(keys_.path(), request_of({"ada", "ben", "cy"})), ""); }

  pump_options options_of(const std::string& host,
                          std::chrono::milliseconds handshake_timeout = std::chrono::seconds(3)) {
    return {.directory = host_directory(keys_.path(), host),
            .host = host,
            .accepted = {"ada", "ben"},
            .handshake_timeout = handshake_timeout,
            .report = report()};
  }
  std::function<void(const std::string&)> report() { return lines_.report(); }
  static std::shared_ptr<pump> start(pump_options options) {
    std::string problem;
    std::shared_ptr<pump> started = pump::start(std::move(options), problem);
    EXPECT_NE(started, nullptr) << problem;
    return started;
  }
  /// Opens ada's door, and returns its port.
  std::uint16_t open_door(const std::vector<std::shared_ptr<pump>>& to,
                          std::chrono::milliseconds handshake_timeout = std::chrono::seconds(3)) {
    std::string problem;
    door_ = door::start({.directory = host_directory(keys_.path(), "ada"),
                         .host = "ada",
                         .handshake_timeout = handshake_timeout,
                         .report = report()},
                        problem);
    EXPECT_NE(door_, nullptr) << problem;
    for (const auto& each : to)
      door_->lead_to(each);
    EXPECT_EQ(door_->listen("127.0.0.1", 0), "");
    return door_->port();
  }
  /// What the keys' authority has issued.
  credential issued(const std::string& name, const validity& valid = valid_for_days(std::time(nullptr), 365)) const {
    credential authority;
    EXPECT_EQ(read_private_file(keys_.path("keys/authority/ca.crt"), authority.certificate), "");
    EXPECT_EQ(read_private_file(keys_.path("keys/authority/ca.key"), authority.key), "");
    credential made;
    EXPECT_EQ(issue_certificate(authority, name, valid, made), "");
    return made;
  }
  /// From now on the test takes what is handed over there.
  void take_links_of(pump& at) { queue_ = std::make_unique<plain_end>(at.take_links()); }
  /// The next link that was handed over; -1 when none comes within 30 s.
  int next_link() const {
    pollfd waiting{.fd = queue_->get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 30000) != 1)
      return -1;
    const auto taken = take_link(queue_->get());
    EXPECT_EQ(taken.host, "ben");
    EXPECT_EQ(taken.address, "127.0.0.1");
    return taken.plain;
  }
  bool anything_handed_over() const {
    pollfd waiting{.fd = queue_->get(), .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, 0) == 1;
  }
  std::vector<std::string> lines() const { return lines_.all(); }
  bool says(const std::string& text) const { return lines_.say(text); }

  temporary_keys keys_;
  told_lines lines_;
  std::unique_ptr<plain_end> queue_;
  std::unique_ptr<door> door_; ///< ada's
};

} // namespace dynamix::links::testing
