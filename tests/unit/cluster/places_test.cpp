#include "cluster/places.hpp"

#include <gtest/gtest.h>

#include <fmt/core.h>

namespace dynamix::cluster {
namespace {

const std::string hosts = R"(
[[host]]
name = "north"
port = 7401
roles = ["arbitrator"]
[[host]]
name = "ada"
port = 7402
[[host]]
name = "ben"
port = 7403
batch_highest = 128
)";

parse_result read(const std::string& more, const std::string& below = hosts) {
  return parse_cluster_text("[cluster]\nname = \"open\"\n" + more + below, "f.toml");
}

cluster_file open_file(std::uint32_t workers_min = 0) {
  const auto result = read(fmt::format("membership = \"open\"\nworkers_max = 4\nworkers_min = {}\n", workers_min));
  EXPECT_TRUE(result.errors.empty()) << to_string(result.errors.front());
  return result.file;
}

TEST(Places, NeedNoWorkerInTheFileForItsPlan) {
  const auto result = read("membership = \"open\"\nworkers_max = 4\n[training]\nexchange = \"auto\"\n",
                           "[[host]]\nname = \"north\"\nport = 7401\nroles = [\"arbitrator\"]\n");
  ASSERT_TRUE(result.errors.empty()) << to_string(result.errors.front());
  EXPECT_EQ(describe_plan(result.file).find("exchange by the links"), std::string::npos);
  EXPECT_EQ(describe_plan_json(result.file).find("\"exchange\": {"), std::string::npos);
}

TEST(Places, AreTheRanksBehindTheFilesWorkers) {
  const auto with = with_places(open_file());
  ASSERT_EQ(with.workers().size(), 4U);
  EXPECT_EQ(with.workers()[1]->name, "ben");
  EXPECT_FALSE(is_place(*with.workers()[1]));
  EXPECT_TRUE(is_place(*with.workers()[3]));
  EXPECT_FALSE(is_host_name(with.workers()[3]->name)) << "nobody can come under its name";
  EXPECT_EQ(with.highest_by_rank(), (std::vector<std::uint32_t>{1024, 128, 1024, 1024}));
  EXPECT_EQ(with_places(with).hosts.size(), with.hosts.size());
}

TEST(Places, BelongToNoFileAndNoDigest) {
  const auto file = open_file();
  const auto with = with_places(file);
  EXPECT_EQ(with.digest(), file.digest());
  EXPECT_EQ(to_toml(with), to_toml(file));
  const auto read_again = parse_cluster_text(to_toml(with), "g.toml");
  ASSERT_TRUE(read_again.errors.empty()) << to_string(read_again.errors.front());
  EXPECT_EQ(read_again.file.digest(), file.digest());
}

TEST(Places, GoToWorkersOfHosts) {
  for (const auto* name : {"guest", "guest/0", "guest.example-1/255"})
    EXPECT_TRUE(is_worker_name(name)) << name;
  for (const auto* name : {"", "/", "guest/", "/0", "guest/x", "guest/0/0", "guest/1000", "+3", "gu est"})
    EXPECT_FALSE(is_worker_name(name)) << name;
}

TEST(Places, AreNoneInAListedCluster) {
  const auto listed = read("").file;
  EXPECT_EQ(with_places(listed).hosts.size(), listed.hosts.size());
  EXPECT_EQ(base_workers(listed), 2U);
}

TEST(Places, GoToTheHostsThatHaveCome) {
  const auto whole = with_guests(with_places(open_file()), {"ada", "ben", "guest"});
  ASSERT_EQ(whole.workers().size(), 3U);
  EXPECT_EQ(whole.workers()[2]->name, "guest");
  EXPECT_EQ(with_guests(with_places(open_file()), {"ada", "ben"}).workers().size(), 2U);
}

TEST(Places, DoNotCountInTheFirstGlobalBatch) {
  EXPECT_EQ(base_workers(with_places(open_file())), 2U) << "the file's";
  EXPECT_EQ(base_workers(with_places(open_file(3))), 3U);
}

TEST(Places, NeedAFileThatSaysHowMany) {
  const auto message = [](const std::string& more, const std::string& below = hosts) {
    const auto result = read(more, below);
    return result.errors.size() == 1 ? to_string(result.errors[0]) : fmt::format("{} errors", result.errors.size());
  };
  const std::string open = "membership = \"open\"\n";
  EXPECT_EQ(message("workers_max = 4\n"), "f.toml:3:15: cluster.workers_max limits an open cluster; it needs "
                                          "cluster.membership = \"open\"");
  EXPECT_EQ(message(open + "workers_max = 1\n"),
            "f.toml:4:15: cluster.workers_max is 1; an open cluster needs at least 2, with the workers of this file, "
            "and as many more as may join");
  EXPECT_EQ(message(open + "workers_max = 4\nworkers_min = 5\n"),
            "f.toml:5:15: cluster.workers_min is 5; there can be at most 4 workers");
  EXPECT_EQ(message("workers_min = 3\n"), "f.toml:3:15: cluster.workers_min is 3; there can be at most 2 workers");
  EXPECT_EQ(message(open + "workers_max = 4\n[arbitrator]\ntopology = \"tree\"\n"), "0 errors");
  EXPECT_EQ(message(open + "workers_max = 4\n[training]\ntrainer = \"client\"\n"), "0 errors");
  EXPECT_EQ(message(open + "workers_max = 1\n", "[[host]]\nname = \"north\"\nport = 7401\nroles = [\"arbitrator\"]\n"),
            "0 errors")
      << "all workers may be guests";
}

} // namespace
} // namespace dynamix::cluster
