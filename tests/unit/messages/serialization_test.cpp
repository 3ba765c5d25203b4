#include "messages/serialization.hpp"
#include "tests/unit/messages/examples.hpp"

#include <caf/all.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
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

class Serialization : public testing::Test {
protected:
  static caf::actor_system_config config() {
    caf::actor_system_config result;
    result.config_file_path = "";
    result.add_message_types<caf::id_block::dynamix_messages>();
    result.set("scheduler.max-threads", 1);
    return result;
  }

  template <class T>
  std::vector<char> save(message<T> value) {
    std::vector<char> bytes;
    caf::binary_serializer sink(system_, bytes);
    EXPECT_FALSE(sink(value));
    return bytes;
  }

  template <class T>
  caf::error load(const std::vector<char>& bytes, message<T>& value) {
    caf::binary_deserializer source(system_, bytes);
    return source(value);
  }

  /// A count of words, and bytes behind it.
  std::vector<char> claim(std::uint32_t count, std::size_t bytes_behind) {
    std::vector<char> bytes;
    caf::binary_serializer sink(system_, bytes);
    EXPECT_FALSE(sink(count));
    bytes.resize(bytes.size() + bytes_behind);
    return bytes;
  }

  caf::actor_system_config config_ = config();
  caf::actor_system system_{config_};
};

TEST_F(Serialization, BringsEveryKindAcross) {
  for (const auto& example : examples())
    std::visit(
        [this]<class T>(const T& value) {
          const auto bytes = save(message(value));
          const auto encoded = encode(value);
          ASSERT_EQ(bytes.size(), sizeof(std::uint32_t) + encoded->view().size_bytes());
          EXPECT_EQ(static_cast<unsigned char>(bytes[3]), encoded->view().size() & 0xff)
              << "the count is not big-endian";
          message<T> received;
          ASSERT_FALSE(load(bytes, received));
          ASSERT_TRUE(received) << received.error().text;
          EXPECT_EQ(*received, value);
        },
        example);
}

TEST_F(Serialization, BringsAMessageAcrossInsideOneOfCaf) {
  auto sent = caf::make_message(message(example<decision>()));
  std::vector<char> bytes;
  caf::binary_serializer sink(system_, bytes);
  ASSERT_FALSE(sink(sent));
  caf::message received;
  caf::binary_deserializer source(system_, bytes);
  ASSERT_FALSE(source(received));
  ASSERT_TRUE(received.match_elements<message<decision>>());
  EXPECT_EQ(*received.get_as<message<decision>>(0), example<decision>());
}

TEST_F(Serialization, MakesAMessageWithoutValueOfWhateverIsNoFrameOfItsKind) {
  message<decision> received;
  ASSERT_FALSE(load(claim(0, 0), received));
  EXPECT_EQ(received.error().code, codec_code::malformed);
  ASSERT_FALSE(load(claim(3, 3 * sizeof(std::uint64_t)), received));
  EXPECT_EQ(received.error().code, codec_code::malformed);
  ASSERT_FALSE(load(save(message(example<heartbeat>())), received));
  EXPECT_EQ(received.error().code, codec_code::unknown_kind);
  EXPECT_EQ(received.error().text, "unexpected heartbeat");
}

TEST_F(Serialization, SendsNoValueThatEveryReceiverWouldRefuse) {
  auto report = example<window_report>();
  report.training.loss = std::numeric_limits<double>::quiet_NaN();
  const auto bytes = save(message(report));
  EXPECT_EQ(bytes, claim(0, 0));
  message<window_report> received;
  ASSERT_FALSE(load(bytes, received));
  EXPECT_FALSE(received);
  // Nor does one go on that came without a value.
  EXPECT_EQ(save(received), claim(0, 0));
}

TEST_F(Serialization, RefusesACountAboveTheLimitBeforeItTakesMemory) {
  for (const auto count : {static_cast<std::uint32_t>(max_frame_words + 1), 0xffffffffU}) {
    message<hello> received;
    const auto error = load(claim(count, 0), received);
    EXPECT_TRUE(error == caf::sec::malformed_basp_message) << system_.render(error);
  }
}

/// Four bytes that claimed 16 MiB once took them, and zeroed them.
TEST_F(Serialization, TakesLittleMemoryForAShortPayloadThatClaimsToBeLong) {
  const auto bytes = claim(static_cast<std::uint32_t>(max_frame_words), 200'000);
  message<policy_version> received;
  largest_allocation = 0;
  EXPECT_TRUE(load(bytes, received));
  EXPECT_LE(largest_allocation, 1U << 20);
}

TEST_F(Serialization, BringsALongMessageAcrossWhole) {
  policy_version version{.version = 1, .parameters = std::vector<std::uint8_t>(max_policy_bytes)};
  for (std::size_t i = 0; i < version.parameters.size(); ++i)
    version.parameters[i] = static_cast<std::uint8_t>(i * 2654435761U >> 24);
  message<policy_version> received;
  ASSERT_FALSE(load(save(message(version)), received));
  ASSERT_TRUE(received) << received.error().text;
  EXPECT_TRUE(*received == version);
}

TEST_F(Serialization, RefusesAPayloadThatIsCutOff) {
  const auto bytes = save(message(example<hello>()));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    message<hello> received;
    EXPECT_TRUE(load({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}, received)) << size;
  }
}

TEST_F(Serialization, EncodesOnceForAllReceivers) {
  const message said(example<placement>());
  EXPECT_EQ(&message(said).encoded(), &said.encoded());
}

TEST(Message, IsSharedInsideOneProcess) {
  const message sent(example<decision>());
  const auto carrier = caf::make_message(sent);
  const auto copy = carrier;
  EXPECT_EQ(&*copy.get_as<message<decision>>(0), &*sent);
}

TEST(Message, PrintsItsKindOnly) {
  const message said(example<decision>());
  EXPECT_EQ(to_string(said), "decision");
  EXPECT_EQ(caf::deep_to_string(caf::make_message(said)), "(decision)");
}

} // namespace
} // namespace dynamix::messages
