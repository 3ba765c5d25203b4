// A rolling upgrade has processes of two releases in one cluster. `golden/released/schema-*.bin` are the schemas of
// earlier commits with this protocol version, as `capnp compile -o- schema/dynamix.capnp` wrote them in messages/.

#include "messages/codec.hpp"
#include "schema/dynamix.capnp.h"
#include "storage/atomic_file.hpp"
#include "tests/unit/messages/examples.hpp"

#include <capnp/dynamic.h>
#include <capnp/schema-loader.h>
#include <capnp/schema.capnp.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace dynamix::messages {
namespace {

using words = std::vector<std::uint64_t>;

class ReleasedSchema : public testing::TestWithParam<const char*> {
protected:
  ReleasedSchema() {
    std::string bytes;
    const auto path = std::string(DYNAMIX_GOLDEN_DIRECTORY "/released/schema-") + GetParam() + ".bin";
    EXPECT_EQ(storage::read_file(path, 1 << 20, bytes), "");
    words_.resize(bytes.size() / sizeof(std::uint64_t));
    std::memcpy(words_.data(), bytes.data(), words_.size() * sizeof(std::uint64_t));
  }
  void load_into(capnp::SchemaLoader& loader) const {
    capnp::FlatArrayMessageReader reader(as_words(words_), {.traversalLimitInWords = 1ULL << 24U});
    for (const auto node : reader.getRoot<capnp::schema::CodeGeneratorRequest>().getNodes())
      loader.load(node);
  }
  static kj::ArrayPtr<const capnp::word> as_words(std::span<const std::uint64_t> of) {
    return {reinterpret_cast<const capnp::word*>(of.data()), of.size()};
  }

private:
  words words_;
};

/// What the older schema knows of `old` is what today's says of it. Returns how many numbers and texts were compared.
std::size_t expect_same(const capnp::DynamicValue::Reader& old, const capnp::DynamicValue::Reader& now) {
  if (old.getType() == capnp::DynamicValue::LIST) {
    const auto left = old.as<capnp::DynamicList>();
    const auto right = now.as<capnp::DynamicList>();
    EXPECT_EQ(left.size(), right.size());
    std::size_t compared = 0;
    for (capnp::uint i = 0; i < std::min(left.size(), right.size()); ++i)
      compared += expect_same(left[i], right[i]);
    return compared;
  }
  if (old.getType() != capnp::DynamicValue::STRUCT) {
    EXPECT_STREQ(kj::str(old).cStr(), kj::str(now).cStr());
    return 1;
  }
  const auto left = old.as<capnp::DynamicStruct>();
  const auto right = now.as<capnp::DynamicStruct>();
  std::size_t compared = 0;
  for (const auto field : left.getSchema().getFields()) {
    const std::string name = field.getProto().getName().cStr();
    KJ_IF_MAYBE (arm, left.which())
      if (field.getProto().getDiscriminantValue() != capnp::schema::Field::NO_DISCRIMINANT && *arm != field)
        continue;
    KJ_IF_MAYBE (same, right.getSchema().findFieldByName(name.c_str()))
      compared += expect_same(left.get(field), right.get(*same));
    else // what is no longer used is at its default
      EXPECT_FALSE(left.has(field, capnp::HasMode::NON_DEFAULT)) << name;
  }
  return compared;
}

TEST_P(ReleasedSchema, IsOneThatTodaysHasGrownFrom) {
  capnp::SchemaLoader loader;
  loader.loadCompiledTypeAndDependencies<schema::Envelope>();
  try {
    load_into(loader); // checks each struct and enum against today's
  } catch (const kj::Exception& incompatible) {
    FAIL() << incompatible.getDescription().cStr();
  }
}

TEST_P(ReleasedSchema, ReadsInTodaysFramesWhatItKnows) {
  capnp::SchemaLoader older;
  load_into(older);
  const auto envelope = older.get(capnp::typeId<schema::Envelope>()).asStruct();
  const auto unset = envelope.getFields()[0];
  std::size_t read = 0;
  for (const auto& value : examples()) {
    const auto frame = encode(value);
    ASSERT_TRUE(frame);
    capnp::FlatArrayMessageReader reader(as_words(frame->view()));
    const auto old = reader.getRoot<capnp::DynamicStruct>(envelope);
    KJ_IF_MAYBE (arm, old.which()) {
      EXPECT_NE(*arm, unset);
      EXPECT_GT(expect_same(old, reader.getRoot<capnp::DynamicStruct>(capnp::Schema::from<schema::Envelope>())), 0U)
          << kind_name(value);
      ++read;
    } else
      EXPECT_STRNE(GetParam(), "2026-11-23") << kind_name(value) << " is a kind that it does not know";
  }
  EXPECT_GT(read, 10U);
}

INSTANTIATE_TEST_SUITE_P(Protocol3, ReleasedSchema, testing::Values("2026-11-22", "2026-11-23"),
                         [](const auto& info) { return std::string(info.index == 0 ? "First" : "Newest"); });

TEST(Protocols, TheNewestThatBothSpeakIsSpoken) {
  struct meeting {
    protocol_range one;
    protocol_range other;
    std::uint32_t spoken;
  };
  for (const auto& [one, other, spoken] :
       {meeting{{3, 3}, {3, 4}, 3}, meeting{{3, 4}, {3, 4}, 4}, meeting{{3, 4}, {4, 5}, 4}, meeting{{3, 6}, {4, 5}, 5},
        meeting{{3, 4}, {5, 6}, 0}, meeting{{1, 2}, {3, 4}, 0}}) {
    EXPECT_EQ(common_protocol(one, other), spoken) << to_text(one) << ", " << to_text(other);
    EXPECT_EQ(common_protocol(other, one), spoken) << to_text(other) << ", " << to_text(one);
  }
}

TEST(Protocols, OfReleasesBeforeTheyWereNegotiatedThereIsOne) {
  // What they say, and what they compare with their own for equality.
  EXPECT_EQ(to_text(protocols_of(hello{.protocol = 3, .newest_protocol = 0})), "protocol 3");
  EXPECT_EQ(to_text(protocols_of(hello{.protocol = 3, .newest_protocol = 4})), "protocols 3 to 4");
  for (const auto& own : {protocols_of(hello()), protocols_of(shard_hello()), protocols_of(client_hello())})
    EXPECT_EQ(to_text(own), "protocol 6");
  EXPECT_EQ(common_protocol({3, 4}), 0U) << "their blocks of gradients are others";
}

} // namespace
} // namespace dynamix::messages
