// What a shard or a root must refuse of the messages of the tree, on both sides.

#include "messages/codec.hpp"
#include "messages/validation.hpp"
#include "tests/unit/messages/examples.hpp"
#include "tests/unit/messages/unchecked.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace dynamix::messages {
namespace {

constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();

template <class T>
void expect_refused(const std::string& field, const std::function<void(T&)>& change) {
  auto value = example<T>();
  change(value);
  const auto encoded = encode(value);
  ASSERT_FALSE(encoded) << field;
  EXPECT_THAT(encoded.error().text, testing::HasSubstr(field));
  const auto decoded = decode(encode_unchecked(any_message(value)));
  ASSERT_FALSE(decoded) << field;
  EXPECT_THAT(decoded.error().text, testing::HasSubstr(field));
}

TEST(TreeValidation, RefusesBrokenHellosAndBeatsOfShards) {
  expect_refused<shard_hello>("node", [](auto& value) { value.node = ""; });
  expect_refused<shard_hello>("parent", [](auto& value) { value.parent = "two\nlines"; });
  expect_refused<shard_hello>("incarnation", [](auto& value) { value.incarnation = 0; });
  expect_refused<shard_hello>("newest_protocol", [](auto& value) { value.newest_protocol = value.protocol - 1; });
  expect_refused<absence>("rank", [](auto& value) { value.rank = max_workers; });
  expect_refused<absence>("incarnation", [](auto& value) { value.incarnation = 0; });
  expect_refused<beat_summary>("beats[1]", [](auto& value) { value.beats.push_back(value.beats[0]); });
  expect_refused<beat_summary>("beats[0].rank", [](auto& value) { value.beats[0].rank = max_workers; });
  expect_refused<recipients>("ranks", [](auto& value) { value.ranks.clear(); });
  expect_refused<shard_order>("leaving", [](auto& value) { value.leaving = {2, 1}; });
}

TEST(TreeValidation, RefusesWindowsWhoseChoicesAreNotThoseOfTheReports) {
  expect_refused<shard_window>("choices", [](auto& value) { value.choices.clear(); });
  expect_refused<shard_window>("choices[0]", [](auto& value) { value.choices[0].rank = 2; });
  expect_refused<shard_window>("reports size", [](auto& value) { value.expected = 0; });
  expect_refused<shard_window>("reports[0]", [](auto& value) { value.window = 1; });
  expect_refused<shard_window>("choices[0].state", [](auto& value) { value.choices[0].state[0] = NAN; });
  expect_refused<shard_window>("choices[0].vote", [](auto& value) { value.choices[0].vote = -2; });
  expect_refused<shard_window>("choices[0].acted", [](auto& value) { value.choices[0].vote = -1; });
  expect_refused<shard_window>("decide_seconds", [](auto& value) { value.decide_seconds = not_a_number; });
}

TEST(TreeValidation, RefusesGuidanceThatIsNoNumberOrOutOfOrder) {
  expect_refused<guidance>("sums.", [](auto& value) { value.sums.loss = not_a_number; });
  expect_refused<guidance>("sums.", [](auto& value) { value.sums.weight = -1; });
  expect_refused<guidance>("window", [](auto& value) { value.window = 0; });
  expect_refused<guidance>("target_seconds", [](auto& value) { value.target_seconds = not_a_number; });
  expect_refused<guidance>("exchange_over_step", [](auto& value) { value.exchange_over_step = 1.5; });
  expect_refused<guidance>("workers[1]", [](auto& value) { value.workers.push_back(value.workers[0]); });
  expect_refused<guidance>("ruled", [](auto& value) { value.workers[0].ruled = max_batch + 1; });
}

} // namespace
} // namespace dynamix::messages
