/// The kept inputs of the fuzzer through every target, whatever compiler there is: what it has found once, and examples
/// of what is accepted.

#include "storage/atomic_file.hpp"
#include "tests/fuzz/targets.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fmt/core.h>
#include <vector>

namespace dynamix::fuzz {
namespace {

class Corpus : public ::testing::TestWithParam<target> {};

TEST_P(Corpus, IsReadWithoutHarm) {
  const auto directory = fmt::format("{}/{}", DYNAMIX_CORPUS, GetParam().name);
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::string contents;
    ASSERT_EQ(storage::read_file(entry.path().string(), 1U << 24U, contents), "");
    SCOPED_TRACE(entry.path().string());
    GetParam().run({reinterpret_cast<const std::uint8_t*>(contents.data()), contents.size()});
    ++count;
  }
  EXPECT_GT(count, 0U) << directory;
}

std::string name_of(const ::testing::TestParamInfo<target>& info) {
  std::string name(info.param.name);
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Kept, Corpus, ::testing::ValuesIn(targets().begin(), targets().end()), name_of);

} // namespace
} // namespace dynamix::fuzz
