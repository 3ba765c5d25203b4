#include "actors/network/connector.hpp"
#include "actors/network/gateway.hpp"
#include "actors/system.hpp"
#include "links/sockets.hpp"
#include "tests/wait_until.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::actors {
namespace {

struct heard {
  std::atomic<int> served = 0;
  std::atomic<int> connected = 0;
  std::atomic<int> lost = 0;
};

connected_actor::behavior_type listen(connected_actor::pointer, const std::shared_ptr<heard>& what) {
  return {[what](atom::serve, const connector_actor&) { ++what->served; },
          [what](atom::connected, const gateway_actor&) { ++what->connected; }, [what](atom::lost) { ++what->lost; }};
}

/// A host whose gateway is its own, with two workers.
class SharedConnector : public testing::Test {
protected:
  SharedConnector() {
    std::vector<connected_actor> owners;
    for (const auto& one : heard_)
      owners.push_back(system_.spawn(listen, one));
    connector_ = system_.spawn<caf::detached>(connector, connector_options{.targets = {{.host = "hub"}}}, owners);
    gateway_ = system_.spawn(gateway, gateway_options{"hub", true}, std::shared_ptr<host_events>());
    caf::anon_send(connector_, atom::serve_v, caf::actor_cast<gateway_actor>(gateway_));
  }
  ~SharedConnector() override {
    caf::anon_send_exit(connector_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(gateway_, caf::exit_reason::user_shutdown);
  }
  void expect_connections(int number) {
    for (const auto& one : heard_) {
      EXPECT_TRUE(wait_until([&] { return one->connected == number; })) << one->connected;
      EXPECT_EQ(one->lost, number - 1);
    }
  }

  system_config config_{cluster::derive_timeouts(1000)};
  caf::actor_system system_{config_};
  const std::vector<std::shared_ptr<heard>> heard_ = {std::make_shared<heard>(), std::make_shared<heard>()};
  connector_actor connector_;
  gateway_local gateway_;
};

TEST_F(SharedConnector, TellsAllWorkersOfTheHost) {
  expect_connections(1);
  for (const auto& one : heard_)
    EXPECT_EQ(one->served, 1);
}

TEST_F(SharedConnector, GoesOnForAllWhereOneSaysThatNobodyLeads) {
  expect_connections(1);
  caf::anon_send(connector_, atom::redirect_v, std::string());
  expect_connections(2);
}

TEST_F(SharedConnector, IgnoresWhoIsLateToSayWhoLeads) {
  expect_connections(1);
  caf::anon_send(connector_, atom::redirect_v, std::string("hub")); // as another worker said before
  caf::anon_send(connector_, atom::attempt_v); // if it had not been ignored, it would connect at once
  caf::anon_send(connector_, atom::redirect_v, std::string());
  expect_connections(2);
}

/// Only "connecting" was logged, whatever the reason.
TEST(Probe, SaysWhyNobodyIsReached) {
  std::string problem;
  EXPECT_FALSE(links::connect_tcp("a..b", 7400, std::chrono::seconds(1), problem));
  EXPECT_THAT(problem, testing::HasSubstr("a..b does not resolve: "));
  EXPECT_FALSE(links::connect_tcp("127.0.0.1", 1, std::chrono::seconds(1), problem));
  EXPECT_EQ(problem, "Connection refused (127.0.0.1)");
}

/// Only the first address of a name was called.
TEST(Probe, ReachesWhicheverAddressOfANameAccepts) {
  for (const auto* address : {"127.0.0.1", "::1"}) {
    std::uint16_t port = 0;
    std::string problem;
    const auto listening = links::listen_tcp(address, 0, port, problem);
    if (!listening || !links::connect_tcp(address, port, std::chrono::seconds(1), problem))
      GTEST_SKIP() << "this machine has not both families: " << address << ": " << problem;
    auto kind = links::connect_failure::other;
    const bool named =
        static_cast<bool>(links::connect_tcp("localhost", port, std::chrono::seconds(1), problem, &kind));
    if (address == std::string_view("::1") && !named)
      GTEST_SKIP() << "here \"localhost\" has no address of that family: " << problem;
    EXPECT_TRUE(named) << address << ": " << problem;
    EXPECT_EQ(kind, links::connect_failure::none);
  }
}

TEST(Probe, TellsThatNobodyListensFromAllElse) {
  std::string problem;
  auto kind = links::connect_failure::none;
  EXPECT_FALSE(links::connect_tcp("127.0.0.1", 1, std::chrono::seconds(1), problem, &kind));
  EXPECT_EQ(kind, links::connect_failure::nobody_listens) << problem;
  EXPECT_FALSE(links::connect_tcp("localhost", 1, std::chrono::seconds(1), problem, &kind));
  EXPECT_EQ(kind, links::connect_failure::nobody_listens) << "also where there is no IPv6: " << problem;
  EXPECT_FALSE(links::connect_tcp("a..b", 1, std::chrono::seconds(1), problem, &kind));
  EXPECT_EQ(kind, links::connect_failure::other);
}

/// CAF took 2 GB for the length that 32 such bytes claim.
TEST(DoubtGreeting, TellsAnotherProgramFromAHost) {
  const auto doubt = [](const std::string& said, bool ends) {
    int ends_of[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_of), 0);
    EXPECT_EQ(write(ends_of[1], said.data(), said.size()), static_cast<ssize_t>(said.size()));
    if (ends)
      shutdown(ends_of[1], SHUT_WR);
    const auto reason = doubt_greeting(ends_of[0], 100);
    close(ends_of[0]);
    close(ends_of[1]);
    return reason;
  };
  const std::string header(32, '\0');
  EXPECT_EQ(doubt(header + "payload", false), "");
  EXPECT_THAT(doubt("", false), testing::HasSubstr("says nothing"));
  EXPECT_THAT(doubt("", true), testing::HasSubstr("ends the connection"));
  EXPECT_THAT(doubt("HTTP/1.1 400 Bad Request\r\n\r\n\r\n\r\n\r\n", true), testing::HasSubstr("is another program"));
  auto huge = header;
  huge[4] = '\x7f';
  EXPECT_THAT(doubt(huge, false), testing::HasSubstr("is another program"));
}

} // namespace
} // namespace dynamix::actors
