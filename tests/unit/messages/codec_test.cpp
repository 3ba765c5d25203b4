#include "messages/codec.hpp"
#include "tests/unit/messages/examples.hpp"
#include "tests/unit/messages/unchecked.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace dynamix::messages {
namespace {

using testing::HasSubstr;

codec_error refusal_of(std::span<const std::uint64_t> words) {
  const auto decoded = decode(words);
  EXPECT_FALSE(decoded) << "a frame that should be refused was accepted";
  return decoded ? codec_error{} : decoded.error();
}

void expect_round_trip(const any_message& value) {
  const auto encoded = encode(value);
  ASSERT_TRUE(encoded) << kind_name(value) << ": " << encoded.error().text;
  const auto decoded = decode(*encoded);
  ASSERT_TRUE(decoded) << kind_name(value) << ": " << decoded.error().text;
  EXPECT_TRUE(*decoded == value) << kind_name(value);
}

std::vector<std::uint32_t> every_rank() {
  std::vector<std::uint32_t> ranks(max_workers);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

window_report largest_report(std::uint32_t rank) {
  auto report = example<window_report>();
  report.host = std::string(max_name_length, 'h');
  report.rank = rank;
  report.generation = report.window = report.first_step = max_counter;
  report.decision = {.term = max_counter, .window = max_counter};
  return report;
}

/// What the rows allow at once fits into a frame. What a single field may be is fields_test.cpp's.
TEST(Codec, BringsBackTheSmallestAndTheLargestMessages) {
  expect_round_trip(decision{.key = {.window = 1}, .generation = 1, .batch = 1});
  auto greeting = example<hello>();
  greeting.members = every_rank();
  expect_round_trip(greeting);
  expect_round_trip(placement{.generation = max_counter,
                              .members = every_rank(),
                              .source = max_workers - 1,
                              .store_prefix = std::string(max_name_length, 's')});
  shard_report shard{
      .window = max_counter, .generation = max_counter, .expected = max_workers, .gather_seconds = max_seconds};
  for (std::uint32_t rank = 0; rank < max_workers; ++rank)
    shard.reports.push_back(largest_report(rank));
  expect_round_trip(shard);
  const transition step{.state = std::vector<float>(max_state_size, 1), .action = max_actions - 1};
  expect_round_trip(trajectory{.rank = max_workers - 1,
                               .policy_version = max_counter,
                               .transitions = std::vector<transition>(max_trajectory_length, step)});
  expect_round_trip(
      policy_version{.version = max_counter, .parameters = std::vector<std::uint8_t>(max_policy_bytes, 0xa5)});
  const std::string key(max_key_length, 'k');
  const std::vector<std::uint8_t> value(max_store_value_bytes, 0x5a);
  expect_round_trip(store_operation{.verb = store_verb::set, .keys = {key}, .value = value});
  expect_round_trip(store_operation{.verb = store_verb::check, .keys = std::vector<std::string>(max_store_keys, key)});
  expect_round_trip(store_result{.value = value});
}

TEST(Codec, RefusesAFrameAboveTheLimit) {
  const std::vector<std::uint64_t> words(max_frame_words + 1);
  EXPECT_EQ(refusal_of(words).code, codec_code::too_large);
}

TEST(Codec, RefusesFramesOfSeveralSegments) {
  capnp::MallocMessageBuilder builder(1, capnp::AllocationStrategy::FIXED_SIZE);
  wire::write(example<hello>(), builder.initRoot<schema::Envelope>());
  ASSERT_GT(builder.getSegmentsForOutput().size(), 1U);
  const auto refusal = refusal_of(words_of(builder));
  EXPECT_EQ(refusal.code, codec_code::malformed);
  EXPECT_THAT(refusal.text, HasSubstr("one segment"));
}

TEST(Codec, RefusesEveryTruncationAndAnyRest) {
  for (const auto& value : examples()) {
    const auto encoded = encode(value);
    auto words = std::vector<std::uint64_t>(encoded->view().begin(), encoded->view().end());
    for (std::size_t size = 0; size < words.size(); ++size)
      EXPECT_EQ(refusal_of(std::span(words).first(size)).code, codec_code::malformed);
    words.push_back(0);
    EXPECT_EQ(refusal_of(words).code, codec_code::malformed);
  }
}

TEST(Codec, RefusesPointersThatLeadAstray) {
  const auto encoded = encode(example<hello>());
  auto words = std::vector<std::uint64_t>(encoded->view().begin(), encoded->view().end());
  words[1] += 1U << 20; // the root's offset
  const auto refusal = refusal_of(words);
  EXPECT_EQ(refusal.code, codec_code::malformed);
  EXPECT_THAT(refusal.text, HasSubstr("not a frame"));
}

/// A struct pointer to the words right behind it.
constexpr std::uint64_t struct_pointer(std::uint64_t data_words, std::uint64_t pointers) {
  return data_words << 32 | pointers << 48;
}

TEST(Codec, RefusesStructsNestedWithoutEnd) {
  constexpr std::size_t depth = 1000;
  constexpr std::uint64_t hello_arm = 1;
  std::vector<std::uint64_t> words = {0, struct_pointer(1, 1), hello_arm};
  for (std::size_t i = 0; i < depth; ++i)
    words.push_back(struct_pointer(0, 1));
  words.push_back(0);
  words[0] = (words.size() - 1) << 32;
  EXPECT_EQ(refusal_of(words).code, codec_code::malformed);
}

TEST(Codec, RefusesASmallFrameThatExpandsWhenRead) {
  // 4096 keys that are all the same text: each pointer is patched to the target of the first.
  store_operation operation{.verb = store_verb::check, .keys = std::vector<std::string>(max_store_keys)};
  operation.keys[0] = std::string(max_key_length, 'k');
  auto words = encode_unchecked(operation);
  const auto same_text = [](std::uint64_t word) { return word >> 32 == ((max_key_length + 1) << 3 | 2); };
  const auto first = std::find_if(words.begin(), words.end(), same_text);
  ASSERT_NE(first, words.end());
  for (std::size_t i = 1; i < max_store_keys; ++i)
    first[static_cast<std::ptrdiff_t>(i)] = *first - (i << 2); // the offset counts from the pointer itself
  const auto refusal = refusal_of(words);
  EXPECT_EQ(refusal.code, codec_code::malformed);
  EXPECT_THAT(refusal.text, HasSubstr("traversal limit"));
}

TEST(Codec, RefusesKindsThatItDoesNotKnow) {
  capnp::MallocMessageBuilder unset;
  unset.initRoot<schema::Envelope>().setUnset();
  EXPECT_EQ(refusal_of(words_of(unset)).code, codec_code::unknown_kind);

  const std::vector<std::uint64_t> null_root = {std::uint64_t{1} << 32, 0};
  EXPECT_EQ(refusal_of(null_root).code, codec_code::unknown_kind);

  constexpr std::uint64_t future_arm = 999;
  const std::vector<std::uint64_t> newer = {std::uint64_t{3} << 32, struct_pointer(1, 1), future_arm, 0};
  const auto refusal = refusal_of(newer);
  EXPECT_EQ(refusal.code, codec_code::unknown_kind);
  EXPECT_THAT(refusal.text, HasSubstr("kind 999"));
}

TEST(Codec, RefusesEnumerantsThatOnlyLookKnownInEightBits) {
  constexpr std::uint16_t accepted_plus_256 = 257;
  capnp::MallocMessageBuilder builder;
  auto envelope = builder.initRoot<schema::Envelope>();
  wire::write(example<welcome>(), envelope);
  envelope.getWelcome().setVerdict(static_cast<schema::WelcomeVerdict>(accepted_plus_256));
  const auto refusal = refusal_of(words_of(builder));
  EXPECT_EQ(refusal.code, codec_code::invalid_field);
  EXPECT_EQ(refusal.text, "welcome: verdict is unknown");
}

} // namespace
} // namespace dynamix::messages
