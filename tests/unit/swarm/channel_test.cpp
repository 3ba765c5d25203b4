#include "swarm/channel.hpp"

#include <gtest/gtest.h>

namespace dynamix::swarm {
namespace {

part_message full_message(std::uint32_t workers) {
  part_message message{.what = verb::done, .window = 7, .at_ns = -3, .deadline_ns = 9, .placed = 5, .text = "why"};
  message.traffic = {.sent = 1, .received = 2, .applied = 3, .refused = 4, .hellos = 5, .generations = 6};
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    message.workers.push_back({.rank = rank, .batch = rank + 32, .sent_ns = 10 + rank, .applied_ns = 20 + rank});
    message.batches.push_back(rank);
    message.settling.push_back(2 * rank);
  }
  return message;
}

TEST(Channel, GivesBackWhatWasSentAlsoOfTheLargestSwarm) {
  auto [left, right] = channel::make_pair();
  for (const std::uint32_t workers : {0U, 1U, 4096U}) {
    ASSERT_TRUE(left.send(full_message(workers)));
    const auto got = right.receive(std::chrono::seconds(5));
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, full_message(workers));
  }
}

TEST(Channel, WaitsNoLongerThanItShouldAndKnowsWhenTheOtherEndIsGone) {
  auto [left, right] = channel::make_pair();
  EXPECT_FALSE(right.receive(std::chrono::milliseconds(1)));
  EXPECT_TRUE(right.open());
  left.close();
  EXPECT_FALSE(right.receive(std::chrono::seconds(5)));
  EXPECT_FALSE(right.open());
  EXPECT_FALSE(right.send(full_message(1)));
}

TEST(Channel, RefusesBytesThatAreNoMessage) {
  const auto bytes = encode(full_message(3));
  EXPECT_TRUE(decode(bytes));
  EXPECT_FALSE(decode(""));
  EXPECT_FALSE(decode(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(decode(bytes + "x"));
}

} // namespace
} // namespace dynamix::swarm
