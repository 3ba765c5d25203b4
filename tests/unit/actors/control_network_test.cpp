/// Gateways over links, and what a stranger can do to one in the clear and cannot over a link.

#include "faults/proxy.hpp"
#include "tests/unit/actors/linked_host.hpp"
#include "tests/unit/links/raw_client.hpp"
#include "tests/unit/links/told_lines.hpp"
#include "tests/unit/parsed_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

namespace dynamix::actors::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class ControlNetwork : public ::testing::Test {
protected:
  ControlNetwork() {
    EXPECT_EQ(links::make_keys(keys_.path(), links::testing::request_of({"ada", "ben"})), "");
    ada_ = start("ada", {"ben"});
    ben_ = start("ben", {});
  }
  std::unique_ptr<one_host> start(const std::string& name, std::set<std::string> accepted) {
    return std::make_unique<one_host>(name, keys_.path(), std::move(accepted), lines_.report());
  }

  links::testing::temporary_keys keys_;
  links::testing::told_lines lines_;
  std::unique_ptr<one_host> ada_;
  std::unique_ptr<one_host> ben_;
};

/// A peer with CAF and our messages, but without keys.
class Stranger : public ControlNetwork {
protected:
  caf::expected<gateway_actor> reach(std::uint16_t port) {
    return system_.middleman().remote_actor<gateway_actor>("127.0.0.1", port);
  }
  /// Whether a forged end of the gateway at this port was obeyed.
  bool ends_the_gateway(std::uint16_t port) {
    const auto reached = reach(port);
    if (!reached)
      return false;
    caf::scoped_actor self(system_);
    self->monitor(*reached);
    caf::anon_send_exit(*reached, caf::exit_reason::user_shutdown);
    bool ended = false;
    self->receive([&](const caf::down_msg& down) { ended = down.reason == caf::exit_reason::user_shutdown; },
                  caf::after(patience) >> [] {});
    return ended;
  }

  system_config config_{cluster::derive_timeouts(5000)};
  caf::actor_system system_{config_};
};

TEST_F(ControlNetwork, CarriesMessagesAndTellsTheEnd) {
  const auto port = ada_->publish();
  const auto reached = ben_->reach("ada", port);
  ASSERT_TRUE(reached) << ben_->problem();
  EXPECT_TRUE(ben_->asks(reached));
  EXPECT_EQ(ada_->pump().counts().open, 1U);
  ada_->end_gateway();
  EXPECT_TRUE(ben_->sees_the_end_of(reached));
}

TEST_F(ControlNetwork, TellsTheEndOfAProcess) {
  const auto reached = ben_->reach("ada", ada_->publish());
  ASSERT_TRUE(reached) << ben_->problem();
  EXPECT_TRUE(ben_->asks(reached));
  ada_.reset();
  EXPECT_TRUE(ben_->sees_the_end_of(reached));
}

TEST_F(ControlNetwork, ReachesAGatewayTwiceOverOneLink) {
  const auto port = ada_->publish();
  const auto first = ben_->reach("ada", port);
  const auto second = ben_->reach("ada", port);
  EXPECT_TRUE(first && first == second);
  EXPECT_TRUE(ben_->asks(second));
}

TEST_F(ControlNetwork, PublishesANewGatewayAtThePortOfTheOneBefore) {
  const auto port = ada_->publish();
  const auto before = ben_->reach("ada", port);
  ASSERT_TRUE(before) << ben_->problem();
  ada_->network().unpublish(ada_->own(), port);
  ada_->end_gateway();
  EXPECT_TRUE(ben_->sees_the_end_of(before));
  ada_->start_gateway();
  EXPECT_EQ(ada_->publish(), port);
  const auto after = ben_->reach("ada", port);
  ASSERT_TRUE(after) << ben_->problem();
  EXPECT_NE(before, after);
  EXPECT_TRUE(ben_->asks(after));
}

/// Whoever asks an actor that has ended hears so at once. It would otherwise look for another only when it has waited
/// for as long as a request may take.
TEST_F(ControlNetwork, AnswersForAnActorThatHasEndedWhereAGuardLooksAtWhatComes) {
  const auto file = parsed_cluster(R"(
[cluster]
name = "pair"
[security]
keys = "keys"
[[host]]
name = "ada"
port = 7401
roles = ["worker", "arbitrator"]
[[host]]
name = "ben"
port = 7402
)");
  ben_ = nullptr;
  ben_ = std::make_unique<one_host>("ben", keys_.path(), std::set<std::string>{}, lines_.report(),
                                    std::make_shared<authority>(file, "ben"));
  const auto reached = ben_->reach("ada", ada_->publish());
  ASSERT_TRUE(reached) << ben_->problem();
  auto greeter = ada_->system().spawn([](greeter_actor::pointer) -> greeter_actor::behavior_type {
    return {[](atom::hello, const message<messages::hello>&,
               const worker_actor&) -> caf::result<message<messages::welcome>, aggregator_actor> {
      return {pack(messages::welcome{}), aggregator_actor{}};
    }};
  });
  caf::anon_send(caf::actor_cast<gateway_local>(ada_->own()), atom::serve_v, greeter);
  caf::scoped_actor self(ben_->system());
  const messages::hello said{.cluster = "pair", .host = "ben", .incarnation = 1, .heartbeat_interval_ms = 1000};
  const auto ask = [&] {
    caf::error problem;
    self->request(reached, patience, atom::hello_v, pack(said), worker_actor{})
        .receive([](const message<messages::welcome>&, const aggregator_actor&) {},
                 [&](const caf::error& error) { problem = error; });
    return problem;
  };
  EXPECT_FALSE(ask());
  caf::scoped_actor at_ada(ada_->system());
  at_ada->send_exit(greeter, caf::exit_reason::user_shutdown);
  at_ada->wait_for(greeter);
  const auto problem = ask();
  EXPECT_TRUE(problem);
  EXPECT_NE(problem, caf::sec::request_timeout);
  EXPECT_EQ(ben_->network().refused(), 0U);
}

/// What `harm` does to the path is the end of the link, which is told, and of nothing else.
class HarmedControlNetwork : public ControlNetwork, public ::testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(By, HarmedControlNetwork, ::testing::Bool(),
                         [](const auto& cut) { return cut.param ? "ACutMessage" : "AChangedByte"; });

TEST_P(HarmedControlNetwork, TellsTheEndAndIsReachedAgain) {
  faults::proxy path;
  const auto port = path.add_link("path", "127.0.0.1", ada_->publish());
  const auto before = ben_->reach("ada", port);
  ASSERT_TRUE(before) << ben_->problem();
  EXPECT_TRUE(ben_->asks(before));
  if (GetParam())
    path.truncate_next("path", faults::way::to_server);
  else
    path.corrupt_next("path", faults::way::to_server);
  EXPECT_TRUE(ben_->sees_the_end_of(before)) << "by the next sign of life";
  const auto after = ben_->reach("ada", port);
  ASSERT_TRUE(after) << ben_->problem();
  EXPECT_TRUE(ben_->asks(after));
}

TEST_F(ControlNetwork, SaysWhyAHostCannotBeReached) {
  EXPECT_FALSE(ada_->reach("ben", ben_->publish())) << "ben takes links from nobody";
  EXPECT_THAT(ada_->problem(), HasSubstr("it refused this host"));
  EXPECT_FALSE(ben_->reach("cy", ada_->publish()));
  EXPECT_THAT(ben_->problem(), HasSubstr("it is host \"ada\""));
}

TEST_F(Stranger, EndsAGatewayInTheClear) {
  EXPECT_TRUE(ends_the_gateway(ada_->publish_in_the_clear()));
}

TEST_F(Stranger, IsCutBeforeAByteReachesTheGatewayOverLinks) {
  const auto port = ada_->publish();
  EXPECT_FALSE(ends_the_gateway(port));
  EXPECT_TRUE(lines_.say("refused "));
  EXPECT_THAT(lines_.all(), SizeIs(1));
  EXPECT_EQ(ada_->pump().counts().opened, 0U);
  const auto reached = ben_->reach("ada", port);
  EXPECT_TRUE(reached && ben_->asks(reached)) << "the gateway lives";
}

TEST_F(Stranger, GetsCafsGreetingInTheClearAndNotAByteOverLinks) {
  const links::testing::raw_socket clear(ada_->publish_in_the_clear());
  EXPECT_TRUE(clear.wait_for_bytes()) << "CAF talks to whoever connects";

  const links::testing::raw_socket secured(ada_->publish());
  secured.send(std::string(4, '\0') + std::string(36, '\xff')); // a header that claims four gigabytes
  std::string received;
  EXPECT_TRUE(secured.wait_for_end(received));
  EXPECT_EQ(received, "");
  EXPECT_TRUE(lines_.say("it does not speak TLS"));
}

/// A frame's header that claims 256 MiB.
std::string large_claim() {
  std::string header(32, '\0');
  header[0] = 1; // a client's handshake
  header[4] = 0x10;
  return header;
}

TEST_F(Stranger, ClaimsMemoryInTheClearAndNoneOverLinks) {
  constexpr std::size_t claimed_kib = 262144;
  auto before = links::testing::resident_kib();
  {
    const links::testing::raw_socket clear(ada_->publish_in_the_clear());
    clear.send(large_claim());
    EXPECT_TRUE(wait_until([&] { return links::testing::resident_kib() > before + claimed_kib / 2; }));
  }
  const links::testing::raw_socket secured(ada_->publish());
  before = links::testing::resident_kib();
  secured.send(large_claim());
  std::string received;
  EXPECT_TRUE(secured.wait_for_end(received));
  EXPECT_LT(links::testing::resident_kib(), before + claimed_kib / 2);
}

TEST_F(Stranger, MayBeSilentForEverInTheClearAndForThreeSecondsOverLinks) {
  const links::testing::raw_socket clear(ada_->publish_in_the_clear());
  const links::testing::raw_socket secured(ada_->publish());
  std::string received;
  EXPECT_TRUE(secured.wait_for_end(received));
  EXPECT_TRUE(lines_.say("it said nothing within 3 s"));
  char byte = 0;
  ssize_t got = 1;
  while (got > 0) // CAF's greeting
    got = ::recv(clear.get(), &byte, 1, MSG_DONTWAIT);
  EXPECT_EQ(got, -1) << "it is not closed";
}

} // namespace
} // namespace dynamix::actors::testing
