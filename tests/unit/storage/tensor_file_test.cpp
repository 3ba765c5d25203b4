#include "storage/tensor_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <string>

namespace dynamix::storage {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

tensor_file example() {
  tensor_file file;
  file.metadata = {{"epoch", "3"}, {"model", "lenet \"é\""}};
  file.tensors = {
      {"weight", element_type::f32, {2, 3}, std::vector<std::uint8_t>(24, 7)},
      {"a scalar", element_type::f64, {}, {1, 2, 3, 4, 5, 6, 7, 8}},
      {"empty", element_type::i64, {0, 5}, {}},
      {"bytes", element_type::u8, {3}, {9, 8, 7}},
  };
  return file;
}

void expect_equal(const tensor_file& left, const tensor_file& right) {
  EXPECT_EQ(left.metadata, right.metadata);
  ASSERT_EQ(left.tensors.size(), right.tensors.size());
  for (std::size_t i = 0; i < left.tensors.size(); ++i) {
    EXPECT_EQ(left.tensors[i].name, right.tensors[i].name);
    EXPECT_EQ(left.tensors[i].type, right.tensors[i].type);
    EXPECT_EQ(left.tensors[i].shape, right.tensors[i].shape);
    EXPECT_EQ(left.tensors[i].data, right.tensors[i].data);
  }
}

/// A file with a header and data written by hand.
std::vector<std::uint8_t> bytes_of(const std::string& header, const std::string& data = "") {
  std::vector<std::uint8_t> bytes(8);
  const std::uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

std::string error_of(const std::vector<std::uint8_t>& bytes) {
  tensor_file file = example();
  auto error = decode(bytes, file);
  if (!error.empty()) {
    EXPECT_TRUE(file.tensors.empty() && file.metadata.empty()) << "a refused file left something behind";
  }
  return error;
}

TEST(TensorFile, ComesBackAsItWasWritten) {
  tensor_file file;
  EXPECT_EQ(decode(encode(example()), file), "");
  expect_equal(file, example());
}

TEST(TensorFile, MayHoldNoTensors) {
  tensor_file file = example();
  EXPECT_EQ(decode(encode({}), file), "");
  expect_equal(file, {});
}

TEST(TensorFile, FindsATensorByName) {
  const auto file = example();
  ASSERT_NE(file.find("bytes"), nullptr);
  EXPECT_EQ(file.find("bytes")->data.size(), 3U);
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST(TensorFile, HasTheSafetensorsLayoutByteForByte) {
  tensor_file file;
  file.metadata = {{"k", "v"}};
  file.tensors = {{"t", element_type::u8, {2}, {0xab, 0xcd}}};
  // What the checksum covers: counts and lengths as 64-bit little-endian numbers, then the bytes themselves.
  std::string covered;
  const auto number = [&](char value) { covered += std::string(1, value) + std::string(7, '\0'); };
  const auto text = [&](const std::string& value) { number(static_cast<char>(value.size())), covered += value; };
  number(1), text("k"), text("v"), number(1), text("t"), text("U8"), number(1), number(2), text("\xab\xcd");
  char digits[9];
  std::snprintf(digits, sizeof(digits), "%08lx",
                ::crc32(0, reinterpret_cast<const Bytef*>(covered.data()), static_cast<uInt>(covered.size())));

  std::string header = std::string(R"({"__metadata__":{"crc32":")") + digits +
                       R"(","k":"v"},"t":{"data_offsets":[0,2],"dtype":"U8","shape":[2]}})";
  while (header.size() % 8 != 0)
    header += ' ';
  EXPECT_EQ(encode(file), bytes_of(header, "\xab\xcd"));
}

TEST(TensorFile, IsRefusedWhenCutOffAnywhere) {
  const auto whole = encode(example());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT(error_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}), HasSubstr("tensor file"))
        << "at " << size;
}

TEST(TensorFile, IsRefusedWithAnyBitFlipped) {
  const auto whole = encode(example());
  for (std::size_t i = 0; i < whole.size() * 8; ++i) {
    auto broken = whole;
    broken[i / 8] ^= static_cast<std::uint8_t>(1U << (i % 8));
    EXPECT_THAT(error_of(broken), HasSubstr("tensor file")) << "bit " << i % 8 << " of byte " << i / 8;
  }
}

TEST(TensorFile, IsRefusedWithBytesBehindItsEnd) {
  auto bytes = encode(example());
  bytes.push_back(0);
  EXPECT_EQ(error_of(bytes), "the tensor file is damaged: 1 bytes follow its last tensor");
}

TEST(TensorFile, RefusesAHeaderLargerThanTheLimitBeforeReadingIt) {
  std::vector<std::uint8_t> bytes(8, 0xff);
  EXPECT_EQ(error_of(bytes), "not a tensor file: its header would have 18446744073709551615 bytes");
}

TEST(TensorFile, RefusesMoreTensorsThanTheLimit) {
  std::string header = R"({"__metadata__":{"crc32":"00000000"})";
  for (std::size_t i = 0; i <= max_tensors; ++i)
    header += ",\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(error_of(bytes_of(header + "}")), HasSubstr("more than 65536 tensors"));
}

TEST(TensorFile, SurvivesAHeaderNestedWithoutEnd) {
  EXPECT_THAT(error_of(bytes_of(std::string(1 << 20, '['))), HasSubstr("not JSON"));
}

struct bad_entry {
  const char* entry;
  const char* message;
};

TEST(TensorFile, SaysWhatIsWrongWithATensor) {
  const bad_entry entries[] = {
      {R"("t":1)", "does not have exactly dtype, shape and data_offsets"},
      {R"("t":{"dtype":"U8","shape":[2]})", "does not have exactly"},
      {R"("t":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"more":1})", "does not have exactly"},
      {R"("":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})", "a tensor without a name"},
      {R"("t":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]})", "a dtype other than"},
      {R"("t":{"dtype":7,"shape":[2],"data_offsets":[0,2]})", "a dtype other than"},
      {R"("t":{"dtype":"U8","shape":2,"data_offsets":[0,2]})", "a shape that is not a list"},
      {R"("t":{"dtype":"U8","shape":[-2],"data_offsets":[0,2]})", "a shape that is not a list"},
      {R"("t":{"dtype":"U8","shape":[2.0],"data_offsets":[0,2]})", "a shape that is not a list"},
      {R"("t":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,2]})", "at most 8 sizes"},
      {R"("t":{"dtype":"U8","shape":[2],"data_offsets":[0]})", "data_offsets that are not two positions"},
      {R"("t":{"dtype":"U8","shape":[2],"data_offsets":[0,"2"]})", "data_offsets that are not two positions"},
      {R"("t":{"dtype":"U8","shape":[2],"data_offsets":[0,3]})", "another size than its dtype and shape say"},
      {R"("t":{"dtype":"U8","shape":[3],"data_offsets":[0,3]})", "outside of the data"},
      {R"("s":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})",
       "overlaps another"},
      {R"("t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})", "leaves a gap"},
      {R"("t":{"dtype":"U8","shape":[2],"data_offsets":[2,0]})", "another size"},
      {R"("t":{"dtype":"F32","shape":[1],"data_offsets":[0,2]})", "another size than its dtype and shape say"},
      {R"("t":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]})", "another size"},
      {R"("t":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})", "another size"},
      {R"("t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})", "its checksum is not that of its contents"},
  };
  for (const auto& [entry, message] : entries) {
    const auto header = std::string(R"({"__metadata__":{"crc32":"00000000"},)") + entry + "}";
    EXPECT_THAT(error_of(bytes_of(header, "xx")), HasSubstr(message)) << entry;
  }
}

TEST(TensorFile, SaysWhatIsWrongWithTheMetadata) {
  EXPECT_THAT(error_of(bytes_of("{}")), HasSubstr("it has no metadata"));
  EXPECT_THAT(error_of(bytes_of("[]")), HasSubstr("not JSON"));
  EXPECT_THAT(error_of(bytes_of(R"({"__metadata__":[]})")), HasSubstr("metadata is not an object"));
  EXPECT_THAT(error_of(bytes_of(R"({"__metadata__":{"a":1}})")), HasSubstr("\"a\" is not a string"));
  EXPECT_THAT(error_of(bytes_of(R"({"__metadata__":{"a":"1"}})")), HasSubstr("no crc32"));
}

TEST(TensorFileDeathTest, IsNotWrittenWithSizesThatDoNotMatch) {
  tensor_file file;
  file.tensors = {{"t", element_type::f32, {2}, {1, 2, 3, 4}}};
  EXPECT_DEATH(encode(file), "well_formed");
  file.tensors = {{"t", element_type::u8, {0}, {}}, {"t", element_type::u8, {0}, {}}};
  EXPECT_DEATH(encode(file), "well_formed");
}

} // namespace
} // namespace dynamix::storage
