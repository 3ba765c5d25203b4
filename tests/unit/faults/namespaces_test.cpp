/// Needs root; skipped elsewhere.

#include "faults/namespaces.hpp"
#include "faults/proxy_connection.hpp"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <csignal>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dynamix::faults {
namespace {

constexpr std::uint16_t port = 7000; ///< in a network of our own every port is free

class HostsApart : public ::testing::Test {
protected:
  void SetUp() override {
    if (const auto reason = network_.create({"a", "b", "c"}); !reason.empty())
      GTEST_SKIP() << reason;
    for (const char* host : {"a", "b"})
      in(host, [&] {
        const tcp_socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const auto own = address_of(host);
        ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
        ASSERT_EQ(::listen(listener.get(), 16), 0);
        listeners_.emplace_back(::dup(listener.get()));
      });
  }

  /// Runs `work` in a host's network, in a thread that ends with it.
  template <class Work>
  void in(const std::string& host, Work&& work) {
    std::thread([&] {
      const tcp_socket file(::open(("/run/netns/" + network_.command(host).back()).c_str(), O_RDONLY | O_CLOEXEC));
      ASSERT_EQ(::setns(file.get(), CLONE_NEWNET), 0);
      work();
    }).join();
  }

  sockaddr_in address_of(const std::string& host) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    EXPECT_EQ(::inet_pton(AF_INET, network_.address(host).c_str(), &address.sin_addr), 1);
    return address;
  }

  bool reaches(const std::string& from, const std::string& to, int wait_ms) {
    bool reached = false;
    in(from, [&] {
      const tcp_socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      const auto target = address_of(to);
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target);
      pollfd done{.fd = socket.get(), .events = POLLOUT, .revents = 0};
      reached = ::poll(&done, 1, wait_ms) == 1 && (done.revents & POLLERR) == 0;
    });
    return reached;
  }

  namespaces network_;
  std::vector<tcp_socket> listeners_;
};

TEST_F(HostsApart, ReachTheirGroupAlone) {
  constexpr int patience_ms = 60'000;
  constexpr int a_while_ms = 500;
  EXPECT_TRUE(reaches("c", "a", patience_ms));
  ASSERT_EQ(network_.set_apart("b", true), "");
  const auto sent = network_.sent_bytes("b");
  EXPECT_FALSE(reaches("b", "a", a_while_ms));
  EXPECT_GT(network_.sent_bytes("b"), sent) << "what it said went nowhere";
  EXPECT_TRUE(reaches("c", "a", patience_ms)) << "the others are whole";
  ASSERT_EQ(network_.set_apart("c", true), "");
  EXPECT_TRUE(reaches("c", "b", patience_ms)) << "together apart";
  EXPECT_FALSE(reaches("c", "a", a_while_ms));
  ASSERT_EQ(network_.set_apart("c", false), "");
  EXPECT_TRUE(reaches("c", "a", patience_ms));
}

TEST(HostsApartAtOnce, AreKnownByTheirNames) {
  EXPECT_EQ(maker_of("dx123n0"), 123);
  EXPECT_EQ(maker_of("dx123p17"), 123);
  EXPECT_EQ(maker_of("dx4194303b1"), 4194303);
  for (const auto* other : {"", "dx", "dx123", "dx123n", "dxn0", "dx123n0x", "dx123x0", "eth0", "dx-1n0"})
    EXPECT_LE(maker_of(other), 0) << other;
}

TEST(HostsApartAtOnce, OfAProcessThatWasKilledGoWithTheNext) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t killed = ::fork();
  if (killed == 0) {
    namespaces network;
    const char made = network.create({"a"}).empty() ? 'y' : 'n';
    if (::write(ends[1], &made, 1) != 1)
      ::_exit(1);
    ::pause();
  }
  char made = 'n';
  EXPECT_EQ(::read(ends[0], &made, 1), 1);
  ::kill(killed, SIGKILL);
  ::waitpid(killed, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  if (made == 'n')
    GTEST_SKIP() << "network namespaces cannot be made here";
  namespaces network;
  ASSERT_EQ(network.create({"a"}), "");
  EXPECT_NE(::access(fmt::format("/run/netns/dx{}n0", killed).c_str(), F_OK), 0);
  EXPECT_NE(::access(fmt::format("/sys/class/net/dx{}b0", killed).c_str(), F_OK), 0);
}

TEST(HostsApartAtOnce, LeaveNothingBehind) {
  std::string name;
  {
    namespaces network;
    if (const auto reason = network.create({"a"}); !reason.empty())
      GTEST_SKIP() << reason;
    name = network.command("a").back();
    EXPECT_EQ(::access(("/run/netns/" + name).c_str(), F_OK), 0);
  }
  EXPECT_NE(::access(("/run/netns/" + name).c_str(), F_OK), 0);
}

} // namespace
} // namespace dynamix::faults
