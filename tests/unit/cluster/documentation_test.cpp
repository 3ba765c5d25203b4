/// docs/cluster-file.md and the files in deployments/ against the code.
/// After a change of a field, DYNAMIX_UPDATE_DOCS=1 makes the first test write the new tables.

#include "cluster/cluster_file.hpp"
#include "tests/unit/documented.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace dynamix::cluster {
namespace {

const std::filesystem::path source = DYNAMIX_SOURCE_DIRECTORY;

TEST(ClusterDocumentation, ListsEveryFieldWithItsDefaultAndRange) {
  expect_documented("cluster-file.md", "fields", describe_fields_markdown());
}

TEST(ClusterDocumentation, ItsExampleIsAValidFile) {
  const std::string text = text_of_file(source / "docs" / "cluster-file.md");
  const auto begin = text.find("```toml\n") + 8;
  const auto parsed = parse_cluster_text(text.substr(begin, text.find("```\n", begin) - begin), "example.toml");
  for (const auto& error : parsed.errors)
    ADD_FAILURE() << to_string(error);
  EXPECT_EQ(parsed.file.workers().size(), 2U);
}

TEST(ClusterDocumentation, NamesTheTimeOutsOfTheDefaultDetectionTime) {
  const std::string text = text_of_file(source / "docs" / "cluster-file.md");
  const timeouts derived = derive_timeouts(cluster_file{}.detect_ms);
  const auto expect_row = [&](const std::string& name, std::uint32_t value) {
    const auto row = text.find("| " + name + " | ");
    ASSERT_NE(row, std::string::npos) << name;
    EXPECT_NE(text.substr(row, text.find('\n', row) - row).find(" | " + std::to_string(value) + " | "),
              std::string::npos)
        << name;
  };
  expect_row("heartbeat of a connection", derived.heartbeat_interval_ms);
  expect_row("heartbeat of a worker", derived.beat_interval_ms);
  expect_row("silence", derived.silence_ms);
  expect_row("rejoin", derived.rejoin_timeout_ms);
  expect_row("stall", derived.stall_timeout_ms);
  expect_row("connection", derived.connection_timeout_ms);
  expect_row("probe", derived.probe_timeout_ms);
  expect_row("request", derived.request_timeout_ms);
  expect_row("gather", derived.gather_timeout_ms);
  expect_row("collective", derived.collective_timeout_ms);
  expect_row("join", derived.join_timeout_ms);
  expect_row("shutdown", derived.shutdown_timeout_ms);
}

TEST(ClusterDocumentation, EveryDeploymentIsAValidFile) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source / "deployments" / "clusters")) {
    if (entry.path().extension() != ".toml")
      continue;
    ++files;
    const auto read = read_cluster_file(entry.path());
    for (const auto& error : read.errors)
      ADD_FAILURE() << to_string(error);
    EXPECT_EQ(read.file.secret_file, "") << entry.path();
  }
  EXPECT_GE(files, 9U);
}

} // namespace
} // namespace dynamix::cluster
