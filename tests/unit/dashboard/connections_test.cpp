#include "dashboard/connections.hpp"

#include <gtest/gtest.h>

#include <array>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::dashboard {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A connection's two ends.
struct pair {
  pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0); }
  pair(const pair&) = delete;
  pair& operator=(const pair&) = delete;
  ~pair() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  bool is_cut() const {
    char byte = 0;
    return ::recv(ends[1], &byte, 1, MSG_DONTWAIT) == 0;
  }
  std::array<int, 2> ends{};
};

TEST(Connections, AreCutWhenTheyTakeTooLongForWhatTheyDo) {
  connections open({.most = 8, .reading = seconds(1), .answering = seconds(10)});
  const time_point start{};
  const pair reading;
  const pair answering;
  const pair streaming;
  open.add(reading.ends[0], start);
  open.enter(open.add(answering.ends[0], start), connection_phase::answering, start);
  open.enter(open.add(streaming.ends[0], start), connection_phase::streaming, start);
  open.cut(start + seconds(1));
  EXPECT_FALSE(reading.is_cut());
  open.cut(start + milliseconds(1001));
  EXPECT_TRUE(reading.is_cut());
  EXPECT_FALSE(answering.is_cut());
  open.cut(start + milliseconds(10001));
  EXPECT_TRUE(answering.is_cut());
  EXPECT_FALSE(streaming.is_cut());
}

TEST(Connections, MakeRoomByCuttingThoseThatHaveSaidNothingForTheLongestTime) {
  connections open({.most = 2});
  const time_point start{};
  const pair first;
  const pair second;
  const pair third;
  const auto answered = open.add(first.ends[0], start);
  open.add(second.ends[0], start + milliseconds(1));
  open.add(third.ends[0], start + milliseconds(2));
  open.enter(answered, connection_phase::answering, start + milliseconds(3));
  open.cut(start + milliseconds(4));
  EXPECT_FALSE(first.is_cut());
  EXPECT_TRUE(second.is_cut());
  EXPECT_FALSE(third.is_cut());
}

TEST(RateLimit, GivesABurstAndThenSoManyASecond) {
  rate_limit limit(10, 3);
  const time_point start{seconds(1000)};
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(limit.take(start));
  EXPECT_FALSE(limit.take(start));
  EXPECT_TRUE(limit.take(start + milliseconds(100)));
  EXPECT_FALSE(limit.take(start + milliseconds(101)));
  int taken = 0;
  for (int i = 0; i < 10; ++i)
    taken += limit.take(start + seconds(3600)) ? 1 : 0;
  EXPECT_EQ(taken, 3);
}

} // namespace
} // namespace dynamix::dashboard
