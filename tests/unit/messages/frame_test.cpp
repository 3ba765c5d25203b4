#include "messages/frame.hpp"
#include "tests/unit/messages/examples.hpp"

#include <caf/all.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

std::size_t largest_allocation = 0; // since it was last set to 0

} // namespace

void* operator new(std::size_t bytes) {
  largest_allocation = std::max(largest_allocation, bytes);
  if (void* memory = std::malloc(bytes))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace dynamix::messages {
namespace {

class frame_on_the_wire : public testing::Test {
protected:
  static caf::actor_system_config config() {
    caf::actor_system_config result;
    result.config_file_path = "";
    result.add_message_types<caf::id_block::dynamix_messages>();
    result.set("scheduler.max-threads", 1);
    return result;
  }

  caf::error save(frame value, std::vector<char>& bytes) {
    caf::binary_serializer sink(system_, bytes);
    return sink(value);
  }
  caf::error load(const std::vector<char>& bytes, frame& value) {
    caf::binary_deserializer source(system_, bytes);
    return source(value);
  }

  caf::actor_system_config config_ = config();
  caf::actor_system system_{config_};
};

std::vector<std::uint64_t> words_in(const frame& value) {
  return {value.view().begin(), value.view().end()};
}

TEST_F(frame_on_the_wire, arrives_as_it_was_sent) {
  for (const auto& value : examples()) {
    const auto sent = encode(value);
    ASSERT_TRUE(sent);
    std::vector<char> bytes;
    ASSERT_FALSE(save(*sent, bytes));
    ASSERT_EQ(bytes.size(), sizeof(std::uint32_t) + sent->view().size_bytes());
    EXPECT_EQ(static_cast<unsigned char>(bytes[3]), sent->view().size()) << "the count is not big-endian";
    frame received;
    ASSERT_FALSE(load(bytes, received));
    EXPECT_EQ(words_in(received), words_in(*sent));
  }
}

TEST_F(frame_on_the_wire, arrives_inside_a_message) {
  const auto sent = encode(example<decision>());
  auto message = caf::make_message(*sent);
  std::vector<char> bytes;
  caf::binary_serializer sink(system_, bytes);
  ASSERT_FALSE(sink(message));
  caf::message received;
  caf::binary_deserializer source(system_, bytes);
  ASSERT_FALSE(source(received));
  ASSERT_TRUE(received.match_elements<frame>());
  EXPECT_EQ(words_in(received.get_as<frame>(0)), words_in(*sent));
}

TEST_F(frame_on_the_wire, may_be_empty) {
  std::vector<char> bytes;
  ASSERT_FALSE(save({}, bytes));
  frame received = *encode(example<decision>());
  ASSERT_FALSE(load(bytes, received));
  EXPECT_TRUE(received.view().empty());
  EXPECT_FALSE(decode(received));
}

TEST_F(frame_on_the_wire, is_refused_by_its_count_before_any_memory_is_taken) {
  for (const auto count : {static_cast<std::uint32_t>(max_frame_words + 1), 0xffffffffU}) {
    std::vector<char> bytes;
    caf::binary_serializer sink(system_, bytes);
    auto claimed = count;
    ASSERT_FALSE(sink(claimed));
    frame received;
    const auto error = load(bytes, received);
    EXPECT_TRUE(error == caf::sec::malformed_basp_message) << system_.render(error);
  }
}

/// Four bytes that claimed 16 MiB once took them, and zeroed them.
TEST_F(frame_on_the_wire, TakesLittleMemoryForAShortPayloadThatClaimsToBeLong) {
  std::vector<char> bytes;
  caf::binary_serializer sink(system_, bytes);
  auto claimed = static_cast<std::uint32_t>(max_frame_words);
  ASSERT_FALSE(sink(claimed));
  bytes.resize(bytes.size() + 200'000);
  frame received;
  largest_allocation = 0;
  EXPECT_TRUE(load(bytes, received));
  EXPECT_LE(largest_allocation, 1U << 20);
}

TEST_F(frame_on_the_wire, ArrivesWholeWhereItIsLong) {
  std::vector<std::uint64_t> words(max_frame_words);
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = i;
  std::vector<char> bytes;
  ASSERT_FALSE(save(frame(std::vector(words)), bytes));
  frame received;
  ASSERT_FALSE(load(bytes, received));
  EXPECT_TRUE(std::ranges::equal(received.view(), words));
}

TEST_F(frame_on_the_wire, is_refused_when_cut_off) {
  std::vector<char> bytes;
  ASSERT_FALSE(save(*encode(example<hello>()), bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    frame received;
    EXPECT_TRUE(load({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}, received)) << size;
  }
}

TEST_F(frame_on_the_wire, is_not_sent_above_the_limit) {
  std::vector<char> bytes;
  EXPECT_TRUE(save(frame(std::vector<std::uint64_t>(max_frame_words + 1)), bytes));
}

TEST(frame, is_shared_by_messages_of_one_process) {
  const auto sent = encode(example<decision>());
  const auto message = caf::make_message(*sent);
  const auto copy = message;
  EXPECT_EQ(copy.get_as<frame>(0).view().data(), sent->view().data());
}

TEST(frame, prints_its_size_only) {
  const frame value(std::vector<std::uint64_t>(40));
  EXPECT_EQ(to_string(value), "frame of 320 bytes");
  EXPECT_EQ(caf::deep_to_string(caf::make_message(value)), "(frame of 320 bytes)");
}

} // namespace
} // namespace dynamix::messages
