#include "node/run_records.hpp"
#include "tests/unit/node/command_answer.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A small run in virtual time.
class report_command : public ::testing::Test {
protected:
  void SetUp() override {
    const auto said = ask({"simulate", "--cluster",
                           std::string(DYNAMIX_SOURCE_DIRECTORY "/deployments/scenarios/train/straggler-8.toml"),
                           "--policy", "ppo", "--quiet", "--out", run()});
    ASSERT_EQ(said.code, exit_done) << said.err;
  }
  std::string run() const { return directory_.path() + "/run"; }
  std::string pictures() const { return directory_.path() + "/pictures"; }

  const temporary_directory directory_;
};

bool has_converter() {
  return std::system("rsvg-convert --version > /dev/null 2>&1") == 0;
}

std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8U | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

TEST_F(report_command, draws_every_plot_as_a_png) {
  if (!has_converter())
    GTEST_SKIP() << "rsvg-convert is not installed: apt-get install librsvg2-bin";
  const auto said = ask({"report", "--run", run(), "--png", pictures()});
  ASSERT_EQ(said.code, exit_done) << said.err;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(pictures())) {
    EXPECT_EQ(entry.path().extension(), ".png") << "nothing else is left there";
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    ASSERT_GT(bytes.size(), 4000U) << entry.path() << " holds more than a white page";
    EXPECT_THAT(bytes, StartsWith("\x89PNG\r\n\x1a\n"));
    EXPECT_EQ(bytes.substr(12, 4), "IHDR");
    EXPECT_EQ(big_endian(bytes, 16), 1440U) << entry.path();
    EXPECT_GT(big_endian(bytes, 20), 300U) << entry.path();
    EXPECT_LT(big_endian(bytes, 20), 1440U) << entry.path();
    EXPECT_EQ(bytes.substr(bytes.size() - 8, 4), "IEND") << "it is whole";
    ++count;
  }
  EXPECT_GE(count, 11U);
  EXPECT_TRUE(std::filesystem::exists(pictures() + "/accuracy-over-time.png"));
  EXPECT_THAT(said.out, HasSubstr(std::to_string(count) + " plots as PNG: " + pictures()));
}

TEST_F(report_command, says_what_is_missing_where_pngs_cannot_be_drawn) {
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", directory_.path().c_str(), 1);
  const auto said = ask({"report", "--run", run(), "--png", pictures()});
  ::setenv("PATH", before.c_str(), 1);
  EXPECT_EQ(said.code, exit_failed);
  EXPECT_THAT(said.err, HasSubstr("rsvg-convert, which is not installed: apt-get install librsvg2-bin"));
  EXPECT_TRUE(std::filesystem::exists(run_directory(run()).page())) << "all else works";
}

} // namespace
} // namespace dynamix::node
