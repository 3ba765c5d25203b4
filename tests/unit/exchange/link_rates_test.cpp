#include "exchange/link_rates.hpp"
#include "tests/unit/exchange/ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace dynamix::exchange {
namespace {

TEST(LinkRates, AreAboveZeroWhateverAMemberTells) {
  memory_store meeting;
  const interruption never;
  const auto join_as = [&](std::uint32_t rank) {
    return join_ring({.rank = rank, .members = {0, 1}, .store_prefix = "test"}, meeting, never);
  };
  std::jthread lies([&] {
    const auto peers = join_as(1);
    const auto say = [&](std::int64_t word) { peers->all_gather({&word, 1})->wait(); };
    std::vector<std::byte> sent(64 << 10);
    std::vector<std::byte> received(sent.size());
    say(0);
    const auto incoming = peers->messages()->receive(0, 2, received);
    const auto outgoing = peers->messages()->send(0, 2, sent);
    incoming->wait();
    outgoing->wait();
    say(1'000'000'000); // of the one round
    const auto rates = std::make_shared<std::vector<float>>(2, 1.0F);
    peers->exchange_blocks(rates, rates)->wait();
    say(-5);
    peers->leave();
  });
  const auto peers = join_as(0);
  EXPECT_THAT(measure_link_rates(*peers, never), testing::Each(testing::Ge(1)));
  peers->leave();
}

} // namespace
} // namespace dynamix::exchange
