#include "cluster/cluster_file.hpp"
#include "node/launch/client_cluster.hpp"
#include "node/launch/port_check.hpp"
#include "tests/loopback_address.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

namespace dynamix::node {
namespace {

/// A listener on a free port of 127.0.0.1.
class listener {
public:
  explicit listener(std::uint16_t wanted = 0) : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    auto address = loopback_address(wanted);
    socklen_t size = sizeof address;
    const int again = 1; // after another test's connections there have ended
    setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &again, sizeof again);
    EXPECT_TRUE(bind(descriptor_, reinterpret_cast<sockaddr*>(&address), size) == 0 ||
                (wanted != 0 && errno == EADDRINUSE));
    EXPECT_EQ(listen(descriptor_, 1), 0);
    EXPECT_EQ(getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  ~listener() { close(descriptor_); }
  std::uint16_t port() const { return port_; }

private:
  int descriptor_;
  std::uint16_t port_ = 0;
};

TEST(PortCheck, TellsWhetherAServerAnswers) {
  const listener taken;
  EXPECT_TRUE(answers("127.0.0.1", taken.port()));
  EXPECT_TRUE(answers("0.0.0.0", taken.port())) << "seen at loopback";
  std::uint16_t free = 0;
  {
    const listener freed;
    free = freed.port();
  }
  EXPECT_FALSE(answers("127.0.0.1", free));
}

TEST(PortCheck, NamesThePlaceOfAPortInUse) {
  auto file = testing::pair_file();
  const listener taken;
  {
    const listener freed;
    file.hosts[0].port = freed.port();
  }
  file.hosts[1].port = taken.port();
  const auto errors = check_ports(file);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(cluster::to_string(errors[0]),
            "pair.toml:10:8: host \"ben\" cannot listen at 127.0.0.1:" + std::to_string(taken.port()) +
                ": another process does; end it, or give a port that is free");
}

TEST(PortCheck, NamesThePlaceOfAnAddressOfAnotherMachine) {
  auto file = testing::pair_file("address = \"203.0.113.1\"\n"); // for documentation: nobody's
  file.hosts.erase(file.hosts.begin());
  file.positions["host[0].address"] = file.positions["host[1].address"];
  const auto errors = check_ports(file);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].line, 12U);
  EXPECT_NE(errors[0].message.find("that is not an address of this machine"), std::string::npos);
}

TEST(ClientCluster, HasItsPageAtAFreePortWhereTheUsualOneIsTaken) {
  const listener taken(8080); // or another program has it
  const auto text = make_client_cluster(2);
  const auto parsed = cluster::parse_cluster_text(text, "--workers 2");
  ASSERT_TRUE(parsed.errors.empty()) << parsed.errors.front().message;
  EXPECT_NE(parsed.file.dashboard.listen, cluster::dashboard{}.listen);
  EXPECT_THAT(parsed.file.dashboard.listen, ::testing::StartsWith("127.0.0.1:"));
}

TEST(WhoHasPort, TellsAListenerFromAConnectionThatHasEnded) {
  const auto socket = [](const std::string& local, const std::string& state) {
    return "   0: " + local + " 00000000:0000 " + state + " 00000000:00000000 00:00000000 00000000  1000\n";
  };
  const std::string heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";
  const auto listener = socket("0100007F:1CE8", "0A");
  const auto ended = socket("0100007F:1CE8", "06");
  EXPECT_THAT(who_has_port(heading + ended + listener, 7400), ::testing::HasSubstr("another process does; end it"));
  EXPECT_THAT(who_has_port(heading + ended, 7400), ::testing::HasSubstr("for up to a minute; wait"));
  EXPECT_THAT(who_has_port(heading + ended + socket("0100007F:1CE8", "01"), 7400),
              ::testing::HasSubstr("at its own end"));
  EXPECT_THAT(who_has_port(heading + ended, 7401), ::testing::HasSubstr("another process does")) << "nothing tells";
}

TEST(LoopbackCaution, NamesAHostThatOnlyItsOwnMachineReaches) {
  auto file = testing::pair_file();
  for (auto& host : file.hosts)
    host.address = host.name;
  const auto& host = file.hosts.front();
  EXPECT_THAT(loopback_caution(file, host, {"127.0.1.1"}), ::testing::HasSubstr(host.name + " resolves to it here"));
  EXPECT_EQ(loopback_caution(file, host, {"10.0.0.7", "127.0.1.1"}), "");
  EXPECT_EQ(loopback_caution(file, host, {}), "") << "another machine resolves it";
  for (auto& other : file.hosts)
    other.address = "127.0.0.1";
  EXPECT_EQ(loopback_caution(file, host, {"127.0.0.1"}), "") << "all are on this machine";
  EXPECT_THAT(addresses_of("127.0.0.1"), ::testing::ElementsAre("127.0.0.1"));
}

} // namespace
} // namespace dynamix::node
