// Frames of released schemas stay readable, byte for byte. Missing files are made by running this test with
// DYNAMIX_WRITE_GOLDEN=1; a file is never made again (docs/wire-format.md).

#include "messages/codec.hpp"
#include "schema/dynamix.capnp.h"
#include "storage/atomic_file.hpp"
#include "tests/unit/messages/examples.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

namespace dynamix::messages {
namespace {

/// Path to example. A second example of a kind gets a number.
std::map<std::string, any_message> golden_files() {
  std::map<std::string, any_message> files;
  std::map<std::string_view, int> count;
  for (const auto& value : examples()) {
    const auto kind = kind_name(value);
    const auto number = ++count[kind];
    const auto suffix = number == 1 ? "" : "_" + std::to_string(number);
    files.emplace(std::string(DYNAMIX_GOLDEN_DIRECTORY "/") + std::string(kind) + suffix + ".bin", value);
  }
  return files;
}

std::vector<std::uint64_t> read_words(const std::string& path) {
  std::string bytes;
  EXPECT_EQ(storage::read_file(path, 1 << 20, bytes), "");
  EXPECT_EQ(bytes.size() % sizeof(std::uint64_t), 0U) << path;
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint64_t));
  return words;
}

/// The frame without the zero words at the ends of its structs: they are all that a struct gains when it grows.
std::vector<std::uint64_t> without_growth(std::span<const std::uint64_t> words) {
  capnp::FlatArrayMessageReader reader(kj::arrayPtr(reinterpret_cast<const capnp::word*>(words.data()), words.size()));
  const auto canonical = capnp::canonicalize(reader.getRoot<schema::Envelope>());
  std::vector<std::uint64_t> result(canonical.size());
  std::memcpy(result.data(), canonical.begin(), canonical.asBytes().size());
  return result;
}

class Golden : public testing::Test {
protected:
  static void SetUpTestSuite() {
    if (std::getenv("DYNAMIX_WRITE_GOLDEN") == nullptr)
      return;
    for (const auto& [path, value] : golden_files()) {
      if (std::filesystem::exists(path))
        continue;
      const auto encoded = encode(value);
      const auto bytes = std::as_bytes(encoded->view());
      const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      ASSERT_EQ(storage::write_file_atomically(path, text), "");
    }
  }
};

TEST_F(Golden, FilesDecodeToTheValuesThatWereWritten) {
  for (const auto& [path, value] : golden_files()) {
    const auto decoded = decode(read_words(path));
    ASSERT_TRUE(decoded) << path << ": " << decoded.error().text;
    EXPECT_TRUE(*decoded == value) << path;
  }
}

TEST_F(Golden, FilesAreWhatIsSentToday) {
  for (const auto& [path, value] : golden_files()) {
    const auto encoded = encode(value);
    ASSERT_TRUE(encoded) << path << ": " << encoded.error().text;
    EXPECT_EQ(without_growth(encoded->view()), without_growth(read_words(path))) << path;
  }
}

TEST_F(Golden, FilesCoverEveryKind) {
  std::map<std::size_t, int> kinds;
  for (const auto& [path, value] : golden_files())
    ++kinds[value.index()];
  EXPECT_EQ(kinds.size(), std::variant_size_v<any_message>);
}

} // namespace
} // namespace dynamix::messages
