#include "faults/shaped_stream.hpp"

#include <gtest/gtest.h>

namespace dynamix::faults {
namespace {

constexpr std::size_t any = 1U << 20;

TEST(ShapedStream, LetsBytesPassInOrder) {
  shaped_stream stream;
  way_counters counters;
  const link_condition open;
  stream.push(1, "ab", open, counters);
  stream.push(1, "cd", open, counters);
  EXPECT_EQ(stream.next_seconds(1, open), 1);
  EXPECT_EQ(stream.take(1, 3, open, counters), "abc");
  stream.put_back("bc");
  EXPECT_TRUE(stream.blocked());
  EXPECT_EQ(stream.take(1, any, open, counters), "bcd");
  EXPECT_TRUE(stream.empty());
  EXPECT_EQ(counters.touched(), 0U);
}

TEST(ShapedStream, HoldsEverythingBackUntilTheHoldEnds) {
  shaped_stream stream;
  way_counters counters;
  const link_condition held{.hold = true};
  stream.push(1, "ab", held, counters);
  EXPECT_EQ(stream.take(9, any, held, counters), "");
  EXPECT_FALSE(stream.next_seconds(9, held).has_value());
  EXPECT_EQ(stream.take(9, any, {}, counters), "ab");
  EXPECT_EQ(counters.held_bytes, 2U);
}

TEST(ShapedStream, ForgetsWhatIsDropped) {
  shaped_stream stream;
  way_counters counters;
  stream.push(1, "ab", {.drop = true}, counters);
  stream.push(1, "cd", {}, counters);
  EXPECT_EQ(stream.take(1, any, {}, counters), "cd");
  EXPECT_EQ(counters.dropped_bytes, 2U);
}

TEST(ShapedStream, DelaysAndNeverOvertakes) {
  shaped_stream stream;
  way_counters counters;
  const link_condition slow{.delay_seconds = 0.5};
  stream.push(1, "ab", slow, counters);
  stream.push(1.1, "cd", {}, counters);
  EXPECT_EQ(stream.take(1.4, any, slow, counters), "");
  EXPECT_EQ(stream.next_seconds(1.4, slow), 1.5);
  EXPECT_EQ(stream.take(1.5, any, slow, counters), "abcd");
  EXPECT_EQ(counters.delayed_bytes, 2U);
}

TEST(ShapedStream, ThrottlesToARate) {
  shaped_stream stream;
  way_counters counters;
  const link_condition narrow{.bytes_per_second = 1000};
  stream.push(0, std::string(500, 'x'), narrow, counters);
  std::size_t passed = 0;
  double now = 0;
  while (!stream.empty()) {
    passed += stream.take(now, any, narrow, counters).size();
    EXPECT_LE(static_cast<double>(passed), 50 + now * 1000 + 1) << "at " << now;
    now = stream.next_seconds(now, narrow).value_or(now);
    ASSERT_LT(now, 1.0);
  }
  EXPECT_EQ(passed, 500U);
  EXPECT_GT(now, 0.4);
  EXPECT_GT(counters.throttled_bytes, 0U);
}

TEST(ShapedStream, IsFullAtItsLimit) {
  shaped_stream stream;
  way_counters counters;
  stream.push(0, std::string(shaped_stream::bytes_most, 'x'), {}, counters);
  EXPECT_TRUE(stream.full());
  stream.take(0, 1, {}, counters);
  EXPECT_FALSE(stream.full());
}

} // namespace
} // namespace dynamix::faults
