#include "bpf/network.h"
#include "links/pump.hpp"
#include "telemetry/probe.hpp"
#include "tests/unit/telemetry/loopback.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <optional>
#include <vector>

namespace dynamix::telemetry {
namespace {

constexpr std::size_t megabyte = 1'000'000;

counters sample(probe& of) {
  counters into;
  of.sample(into);
  return into;
}

TEST(TcpInfoProbe, CountsTheBytesOfAKnownTransferAtBothEnds) {
  const loopback_connection connection;
  const auto probe = make_tcp_info_probe();
  const counters before = sample(*probe);
  connection.transfer(20 * megabyte);
  const counters after = sample(*probe);
  ASSERT_TRUE(before.network_valid);
  ASSERT_TRUE(after.network_valid);
  const double expected = 20 * megabyte;
  EXPECT_NEAR(static_cast<double>(after.bytes_received - before.bytes_received), expected, 0.01 * expected);
  EXPECT_NEAR(static_cast<double>(after.bytes_sent - before.bytes_sent), expected, 0.01 * expected);
}

TEST(TcpInfoProbe, MeasuresARoundTripTimeOnceDataHasFlowed) {
  const loopback_connection connection;
  connection.transfer(megabyte);
  const counters now = sample(*make_tcp_info_probe());
  EXPECT_GT(now.rtt_seconds, 0);
  EXPECT_LT(now.rtt_seconds, 10);
}

TEST(TcpInfoProbe, KeepsTheCountsOfASocketThatHasClosed) {
  std::optional<loopback_connection> connection(std::in_place);
  const auto probe = make_tcp_info_probe();
  connection->transfer(megabyte);
  const counters open = sample(*probe);
  connection.reset();
  const counters closed = sample(*probe);
  EXPECT_GE(open.bytes_received, megabyte);
  EXPECT_EQ(closed.bytes_received, open.bytes_received);
  EXPECT_EQ(closed.bytes_sent, open.bytes_sent);
}

TEST(TcpInfoProbe, AddsUpSocketsThatReuseOneAnotherSDescriptors) {
  const auto probe = make_tcp_info_probe();
  std::vector<int> descriptors;
  std::uint64_t last = sample(*probe).bytes_received;
  const std::uint64_t first = last;
  for (int round = 1; round <= 3; ++round) {
    // Each is smaller than the one before: a count kept by descriptor would fall.
    const loopback_connection connection;
    descriptors.push_back(connection.client());
    connection.transfer((4 - round) * megabyte);
    const std::uint64_t now = sample(*probe).bytes_received;
    EXPECT_EQ(now - last, (4 - round) * megabyte);
    last = now;
  }
  EXPECT_EQ(descriptors.front(), descriptors.back()) << "the descriptors were not reused; the test shows nothing";
  EXPECT_EQ(last - first, 6 * megabyte);
}

TEST(TcpInfoProbe, CountsASocketWithTwoDescriptorsOnce) {
  const loopback_connection connection;
  const int twin = fcntl(connection.client(), F_DUPFD_CLOEXEC, 0);
  ASSERT_GE(twin, 0);
  const auto probe = make_tcp_info_probe();
  const counters before = sample(*probe);
  connection.transfer(20 * megabyte);
  const counters after = sample(*probe);
  close(twin);
  EXPECT_NEAR(static_cast<double>(after.bytes_sent - before.bytes_sent), 20.0 * megabyte, 0.2 * megabyte);
}

TEST(TcpInfoProbe, PassesOverListenersAndSocketsOfOtherKinds) {
  const int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(listen(listener, 4), 0);
  const counters now = sample(*make_tcp_info_probe());
  for (const int each : {udp, local, listener})
    close(each);
  EXPECT_TRUE(now.network_valid);
  EXPECT_EQ(now.bytes_sent + now.bytes_received, 0U);
  EXPECT_EQ(now.rtt_seconds, 0);
}

TEST(TcpInfoProbe, AsksOnlyForConnectionsWithGradientsWhereThatIsEnough) {
  const loopback_connection gradients;
  const loopback_connection control;
  const auto probe = make_gradient_tcp_info_probe({control.server_port()});
  const counters before = sample(*probe);
  gradients.transfer(megabyte);
  control.transfer(megabyte);
  const loopback_connection late;
  late.transfer(megabyte);
  const counters after = sample(*probe);
  EXPECT_EQ(after.bytes_received - before.bytes_received, 2 * megabyte);
  EXPECT_EQ(after.connections, 4U) << "both ends of two";
}

TEST(TcpInfoProbe, TellsConnectionsWithGradientsByTheirPriorityWhateverTheirPorts) {
  static_assert(gradient_priority == links::bulk_priority);
  const loopback_connection gradients;
  const loopback_connection control(gradients.server_port());
  const auto all = make_tcp_info_probe({gradients.server_port()});
  gradients.transfer(megabyte);
  control.transfer(megabyte);
  constexpr double acknowledged_beginnings = 8; // TCP counts a connection's first packet as a byte
  EXPECT_NEAR(static_cast<double>(sample(*all).control_bytes), 4.0 * megabyte, acknowledged_beginnings)
      << "at both ends of both";
  gradients.carry_gradients();
  const auto alone = make_gradient_tcp_info_probe({gradients.server_port()});
  const auto before = sample(*alone);
  gradients.transfer(megabyte);
  control.transfer(megabyte);
  const auto after = sample(*all);
  EXPECT_NEAR(static_cast<double>(after.control_bytes), 6.0 * megabyte, acknowledged_beginnings);
  EXPECT_EQ(after.connections, 2U);
  EXPECT_EQ(sample(*alone).bytes_received - before.bytes_received, megabyte);
}

TEST(TcpInfoProbe, FindsASocketBehindAGapInTheDescriptors) {
  const loopback_connection connection;
  const int high = fcntl(connection.client(), F_DUPFD_CLOEXEC, 900);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(high, 900);
  ASSERT_EQ(dup2(nothing, connection.client()), connection.client());
  const auto probe = make_tcp_info_probe();
  const counters before = sample(*probe);
  const std::vector<char> data(1000);
  ASSERT_EQ(send(high, data.data(), data.size(), 0), 1000);
  std::vector<char> got(1000);
  ASSERT_EQ(recv(connection.server(), got.data(), got.size(), MSG_WAITALL), 1000);
  ASSERT_EQ(send(connection.server(), data.data(), data.size(), 0), 1000); // acknowledges the first thousand
  ASSERT_EQ(recv(high, got.data(), got.size(), MSG_WAITALL), 1000);
  const counters after = sample(*probe);
  close(nothing);
  close(high);
  EXPECT_EQ(after.bytes_received - before.bytes_received, 2000U);
  EXPECT_GE(after.bytes_sent - before.bytes_sent, 1000U);
}

TEST(TcpInfoProbe, FollowsAHundredConnections) {
  std::vector<loopback_connection> connections(100);
  const auto probe = make_tcp_info_probe();
  const counters before = sample(*probe);
  for (const auto& each : connections)
    each.transfer(10'000);
  EXPECT_EQ(sample(*probe).bytes_received - before.bytes_received, megabyte);
}

} // namespace
} // namespace dynamix::telemetry
