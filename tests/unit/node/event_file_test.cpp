#include "ledger/codec.hpp"
#include "node/event_file.hpp"
#include "node/tensorboard.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(event_file, checksums_as_rfc_3720_and_masks_as_tensorflow) {
  // RFC 3720, appendix B.4: 32 bytes of zeros, of ones, and rising.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string rising;
  for (char i = 0; i < 32; ++i)
    rising += i;
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  const auto record = to_record("abc");
  ASSERT_EQ(record.size(), 8U + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

TEST(event_file, leaves_out_what_is_no_number) {
  const scalar numbers[] = {{"a", std::nan("")}, {"b", 2}};
  const auto event = scalar_event(1, 1, numbers);
  EXPECT_THAT(event, HasSubstr("b"));
  EXPECT_EQ(event.find("\x0a\x01"
                       "a"),
            std::string::npos);
  EXPECT_EQ(scalar_event(1, 1, std::span(numbers, 1)), "");
}

/// Every file that a sample run's log has written, decoded by tests/unit/node/read_events.py, which shares no code with
/// the writer. Nothing where there is no python3.
std::optional<nlohmann::json> decoded(const std::string& directory) {
  const std::string out = directory + "/decoded.json";
  const std::string command = "python3 " DYNAMIX_TEST_DIRECTORY "/read_events.py " + directory + " > " + out;
  if (std::system("command -v python3 > /dev/null") != 0)
    return std::nullopt;
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ifstream file(out);
  return nlohmann::json::parse(file);
}

TEST(tensorboard, writes_what_an_independent_reader_reads) {
  const temporary_directory directory;
  const auto ledger = directory.path() + "/windows.jsonl";
  auto rows = sample_rows();
  std::get<ledger::start>(rows[0].entry).started_at = "2026-11-21T18:15:15Z";
  rows.push_back({7, ledger::evaluation{{.step = 30, .test_loss = 0.25, .test_accuracy = 0.875}}});
  rows.push_back({8, ledger::policy_version{.version = 4, .entropy = 0.5, .approximate_kl = 0.125}});
  std::ofstream file(ledger);
  for (const auto& row : rows)
    file << ledger::to_json_line(row) << "\n";
  file.close();
  {
    std::string problem;
    const tensorboard_log log(ledger, directory.path() + "/tensorboard", false, problem);
    ASSERT_EQ(problem, "");
  }
  const auto read = decoded(directory.path() + "/tensorboard");
  if (!read)
    GTEST_SKIP() << "there is no python3 to read the file with";
  EXPECT_EQ((*read)["version"], "brain.Event:2");
  const auto& scalars = (*read)["scalars"];
  ASSERT_TRUE(scalars.contains("accuracy/test"));
  EXPECT_EQ(scalars["accuracy/test"][0]["value"], 0.875);
  EXPECT_EQ(scalars["accuracy/test"][0]["step"], 30);
  EXPECT_EQ(scalars["accuracy/test"][0]["wall"], 1795284915.0 + 7);
  EXPECT_EQ(scalars["learner/approximate_kl"][0]["value"], 0.125);
  EXPECT_EQ(scalars["batch/ada"].size(), 3U) << "a number a window";
  EXPECT_EQ(scalars["batch/ada"][2]["value"], 89);
  EXPECT_EQ(scalars["batch/global"][0]["value"], 128);
}

TEST(tensorboard, passes_over_what_an_earlier_life_has_written) {
  const temporary_directory directory;
  const auto ledger = directory.path() + "/windows.jsonl";
  std::ofstream file(ledger);
  for (const auto& row : sample_rows())
    file << ledger::to_json_line(row) << "\n";
  file.close();
  std::string problem;
  { const tensorboard_log log(ledger, directory.path() + "/tensorboard", true, problem); }
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path() + "/tensorboard"))
    bytes += entry.file_size();
  EXPECT_EQ(bytes, to_record(version_event(0)).size());
}

TEST(tensorboard, tells_many_workers_by_their_bounds) {
  ledger::window window{.key = {1, 1}};
  for (std::uint32_t rank = 0; rank < 100; ++rank) {
    window.workers.push_back(worker(report(0, 1, 10 + rank), {}, 64));
    window.workers.back().report.host = "host-" + std::to_string(rank);
  }
  scalar_reader reader;
  const auto told = reader.read({1, window});
  ASSERT_TRUE(told);
  EXPECT_LT(told->scalars.size(), 30U);
  const auto largest = std::ranges::find(told->scalars, "batch/largest", &scalar::tag);
  ASSERT_NE(largest, told->scalars.end());
  EXPECT_EQ(largest->value, 109);
}

} // namespace
} // namespace dynamix::node
