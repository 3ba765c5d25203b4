#include "exchange/interruption.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

namespace dynamix::exchange {
namespace {

TEST(Interruption, KeepsTheFirstReason) {
  interruption stop;
  EXPECT_FALSE(stop.raised());
  EXPECT_EQ(stop.reason(), "");
  stop.raise("first");
  stop.raise("second");
  EXPECT_TRUE(stop.raised());
  EXPECT_EQ(stop.reason(), "first");
}

TEST(Interruption, FreesWhoWaitsForAnEventThatDoesNotCome) {
  interruption stop;
  const auto never = stop.make_event();
  std::jthread raising([&] { stop.raise("over"); });
  EXPECT_FALSE(stop.wait(*never));
  EXPECT_FALSE(stop.wait_for(*never, 1000));
  EXPECT_TRUE(stop.wait_for(1000)) << "slept on";
}

TEST(Interruption, LetsGoWhoWaitsForAnEventThatComes) {
  interruption stop;
  const auto awaited = stop.make_event();
  std::jthread completing([&] { awaited->complete(); });
  EXPECT_TRUE(stop.wait(*awaited));
  EXPECT_FALSE(stop.raised());
  stop.raise("too late");
  EXPECT_TRUE(stop.wait(*awaited)) << "what has come is there";
}

TEST(Interruption, GivesUpAfterAWhile) {
  const interruption stop;
  EXPECT_FALSE(stop.wait_for(*stop.make_event(), 0.001));
  EXPECT_FALSE(stop.wait_for(0.001));
}

TEST(Interruption, MayBeGoneWhenAnEventCompletes) {
  std::optional<interruption> stop(std::in_place);
  const auto late = stop->make_event();
  stop.reset();
  late->complete();
}

TEST(Interruption, WakesEverybodyFromAnyThread) {
  for (int round = 0; round < 200; ++round) {
    interruption stop;
    std::vector<std::jthread> threads;
    for (int waiter = 0; waiter < 4; ++waiter)
      threads.emplace_back([&] { EXPECT_FALSE(stop.wait(*stop.make_event())); });
    threads.emplace_back([&] { stop.raise("a"); });
    threads.emplace_back([&] { stop.raise("b"); });
  }
}

} // namespace
} // namespace dynamix::exchange
