#include "node/launch/shipped_files.hpp"

#include <gtest/gtest.h>

namespace dynamix::node {
namespace {

cluster::cluster_file read(const std::string& arbitrator) {
  auto parsed =
      cluster::parse_cluster_text("[cluster]\nname = \"small\"\n\n[training]\nmodel = \"lenet\"\n\n" + arbitrator +
                                      "\n[[host]]\nname = \"ana\"\nport = 7400\nroles = [\"arbitrator\"]\n"
                                      "\n[[host]]\nname = \"ben\"\nport = 7401\n",
                                  "small.toml");
  EXPECT_TRUE(parsed.errors.empty()) << cluster::to_string(parsed.errors.front());
  return parsed.file;
}

TEST(ShippedFiles, StartPpoWhereTheClusterFileNamesNoParameters) {
  const auto shipped = find_shipped("policies/ppo.dynamix");
  ASSERT_FALSE(shipped.empty());
  EXPECT_EQ(find_default_parameters(read("")), shipped) << "the smallest cluster file";
  EXPECT_EQ(find_default_parameters(read("[arbitrator]\npolicy_file = \"\"\n")), "") << "which asks for fresh ones";
  EXPECT_EQ(find_default_parameters(read("[arbitrator]\npolicy_file = \"mine.dynamix\"\n")), "");
  EXPECT_EQ(find_default_parameters(read("[arbitrator]\npolicy = \"goodput\"\n")), "");
  EXPECT_EQ(find_default_parameters(read("[arbitrator]\nscales = [80, 100, 125]\n")), "") << "other votes do not fit";
}

} // namespace
} // namespace dynamix::node
