// Where the only arbitrator's host keeps its layout.

#include "actors/host/layout_file.hpp"
#include "tests/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace dynamix::actors {
namespace {

TEST(LayoutFile, ReadsWhatItHasWrittenAndNothingElse) {
  const temporary_directory directory;
  const auto path = directory.file("shards.json");
  EXPECT_EQ(read_layout(path), shard_layout{});
  const shard_layout layout{.cluster_digest = ~0ULL, .serving = {1, 3}, .homes = {1, 3, 0}};
  EXPECT_EQ(write_layout(path, layout), "");
  EXPECT_EQ(read_layout(path), layout);
  for (const auto* wrong : {"{", "{\"cluster_digest\":1}", "{\"cluster_digest\":1,\"serving\":[\"a\"],\"homes\":[]}"}) {
    std::ofstream(path) << wrong;
    EXPECT_EQ(read_layout(path), shard_layout{}) << wrong;
  }
}

} // namespace
} // namespace dynamix::actors
