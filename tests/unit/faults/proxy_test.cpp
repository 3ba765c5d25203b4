/// Real sockets on loopback: a server that echoes, a client, and the proxy between them.

#include "faults/proxy.hpp"
#include "faults/proxy_connection.hpp"
#include "tests/loopback_address.hpp"
#include "tests/wait_until.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace dynamix::faults {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds patience{60'000};

/// Sends back what it gets, from one thread, one connection after the other and several at once.
class echo_server {
public:
  echo_server() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    auto address = loopback_address(0);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), any, sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    EXPECT_EQ(::getsockname(listener_.get(), any, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  std::uint16_t port() const { return port_; }
  int connections() const { return connections_; }

private:
  void run(const std::stop_token& stop) {
    std::vector<tcp_socket> open;
    while (!stop.stop_requested()) {
      std::vector<pollfd> polls = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
      for (const auto& each : open)
        polls.push_back({.fd = each.get(), .events = POLLIN, .revents = 0});
      ::poll(polls.data(), polls.size(), 20);
      std::vector<tcp_socket> left;
      for (std::size_t i = 1; i < polls.size(); ++i) {
        char bytes[4096];
        const auto count = polls[i].revents == 0 ? 1 : ::recv(open[i - 1].get(), bytes, sizeof bytes, 0);
        if (polls[i].revents != 0 && count > 0)
          ::send(open[i - 1].get(), bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL);
        if (count > 0)
          left.push_back(std::move(open[i - 1]));
      }
      open = std::move(left);
      if (const int accepted = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC); accepted >= 0) {
        open.emplace_back(accepted);
        ++connections_;
      }
    }
  }

  tcp_socket listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> connections_ = 0;
  std::jthread thread_;
};

class client {
public:
  explicit client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = loopback_address(port);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  void say(const std::string& text) {
    EXPECT_EQ(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  /// What comes until there are `size` bytes, the connection ends ("|end"), breaks ("|reset") or `wait` is over.
  std::string hear(std::size_t size, milliseconds wait = patience) {
    std::string heard;
    const auto deadline = steady_clock::now() + wait;
    while (heard.size() < size) {
      pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
      if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) != 1)
        return heard;
      char bytes[4096];
      const auto count = ::recv(socket_.get(), bytes, std::min(sizeof bytes, size - heard.size()), 0);
      if (count <= 0)
        return heard + (count == 0 ? "|end" : "|reset");
      heard.append(bytes, static_cast<std::size_t>(count));
    }
    return heard;
  }
  void end() { ::shutdown(socket_.get(), SHUT_WR); }

private:
  tcp_socket socket_;
};

class AProxy : public ::testing::Test {
protected:
  AProxy() : port_(proxy_.add_link("link", "127.0.0.1", server_.port())) { EXPECT_NE(port_, 0); }

  link_counters counters() const { return proxy_.counters("link"); }
  static constexpr milliseconds a_while{200}; ///< in which nothing is to come

  echo_server server_;
  proxy proxy_;
  std::uint16_t port_;
};

TEST_F(AProxy, PassesEverythingBothWaysAndTheEnd) {
  client peer(port_);
  std::string text;
  for (int i = 0; text.size() < 1'000'000; ++i)
    text += std::to_string(i);
  std::jthread sender([&] { peer.say(text); });
  EXPECT_EQ(peer.hear(text.size()), text);
  sender.join();
  peer.end();
  EXPECT_EQ(peer.hear(1), "|end");
  EXPECT_EQ(counters().of(way::to_server).passed_bytes, text.size());
  EXPECT_EQ(counters().of(way::to_client).passed_bytes, text.size());
  EXPECT_EQ(counters().connections, 1U);
  EXPECT_EQ(counters().touched(), 0U);
}

TEST_F(AProxy, HoldsOneWayAndDeliversLater) {
  client peer(port_);
  peer.say("one");
  EXPECT_EQ(peer.hear(3), "one");
  proxy_.set("link", way::to_client, {.hold = true});
  peer.say("two");
  EXPECT_TRUE(wait_until([&] { return counters().of(way::to_client).held_bytes == 3; }));
  EXPECT_EQ(peer.hear(3, a_while), "") << "the answer is held";
  EXPECT_EQ(counters().of(way::to_server).passed_bytes, 6U) << "the question went through";
  proxy_.set("link", way::to_client, {});
  EXPECT_EQ(peer.hear(3), "two");
  EXPECT_EQ(counters().of(way::to_client).held_bytes, 3U);
  EXPECT_EQ(counters().of(way::to_server).held_bytes, 0U);
}

TEST_F(AProxy, LetsAConnectionWaitForTheEndOfAHold) {
  proxy_.set("link", way::to_server, {.hold = true});
  client peer(port_);
  peer.say("one");
  EXPECT_TRUE(wait_until([&] { return counters().waiting == 1; }));
  EXPECT_EQ(peer.hear(3, a_while), "");
  EXPECT_EQ(server_.connections(), 0);
  EXPECT_EQ(counters().waiting, 1U);
  proxy_.set("link", way::to_server, {});
  EXPECT_EQ(peer.hear(3), "one");
}

TEST_F(AProxy, DropsBytesAndResetsTheConnectionInTheEnd) {
  client peer(port_);
  peer.say("one");
  EXPECT_EQ(peer.hear(3), "one");
  proxy_.set("link", way::to_server, {.drop = true});
  peer.say("two");
  EXPECT_TRUE(wait_until([&] { return counters().of(way::to_server).dropped_bytes == 3; }));
  EXPECT_EQ(peer.hear(3, a_while), "");
  proxy_.set("link", way::to_server, {});
  EXPECT_EQ(peer.hear(1), "|reset");
  EXPECT_EQ(counters().resets, 1U);
  client next(port_);
  next.say("three");
  EXPECT_EQ(next.hear(5), "three");
}

TEST_F(AProxy, Resets) {
  client peer(port_);
  peer.say("one");
  EXPECT_EQ(peer.hear(3), "one");
  proxy_.reset("link");
  EXPECT_EQ(peer.hear(1), "|reset");
  EXPECT_EQ(counters().resets, 1U);
}

TEST_F(AProxy, FlipsOneBitOfTheNextChunkAlone) {
  client peer(port_);
  proxy_.corrupt_next("link", way::to_server);
  peer.say("one");
  EXPECT_EQ(peer.hear(3), "o~e");
  peer.say("two");
  EXPECT_EQ(peer.hear(3), "two");
  EXPECT_EQ(counters().of(way::to_server).corrupted, 1U);
}

TEST_F(AProxy, CutsTheNextChunkShortAndEnds) {
  client peer(port_);
  peer.say("one!");
  EXPECT_EQ(peer.hear(4), "one!");
  proxy_.truncate_next("link", way::to_client);
  peer.say("two!");
  EXPECT_EQ(peer.hear(4).substr(0, 3), "tw|");
  EXPECT_EQ(counters().of(way::to_client).truncated, 1U);
}

TEST_F(AProxy, Delays) {
  proxy_.set("link", way::to_server, {.delay_seconds = 0.3});
  client peer(port_);
  const auto begin = steady_clock::now();
  peer.say("one");
  EXPECT_EQ(peer.hear(3), "one");
  EXPECT_GE(steady_clock::now() - begin, milliseconds(300));
  EXPECT_EQ(counters().of(way::to_server).delayed_bytes, 3U);
}

TEST_F(AProxy, Throttles) {
  proxy_.set("link", way::to_client, {.bytes_per_second = 10'000});
  client peer(port_);
  const std::string text(5000, 'x');
  const auto begin = steady_clock::now();
  peer.say(text);
  EXPECT_EQ(peer.hear(text.size()), text);
  EXPECT_GE(steady_clock::now() - begin, milliseconds(400));
  EXPECT_GT(counters().of(way::to_client).throttled_bytes, 0U);
}

TEST_F(AProxy, ClosesWhatNobodyAnswers) {
  std::uint16_t silent = 0;
  {
    const echo_server gone;
    silent = gone.port();
  }
  client peer(proxy_.add_link("silent", "127.0.0.1", silent));
  EXPECT_EQ(peer.hear(1), "|reset");
  EXPECT_EQ(proxy_.add_link("link", "127.0.0.1", server_.port()), 0) << "the name is taken";
  EXPECT_EQ(proxy_.add_link("other", "no address", 1), 0);
}

} // namespace
} // namespace dynamix::faults
