#include "telemetry/cgroup.hpp"
#include "tests/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace dynamix::telemetry {
namespace {

constexpr auto version_2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr auto hybrid = "25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
                        "26 25 0:23 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
                        "27 25 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                        "28 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

TEST(Cgroups, AreFoundInOneHierarchy) {
  const auto found = find_cgroups("0::/system.slice/dynamix.service\n", version_2);
  EXPECT_EQ(found.unified, "/sys/fs/cgroup/system.slice/dynamix.service");
  EXPECT_EQ(found.memory, found.unified);
  EXPECT_EQ(found.cpu, found.unified);
}

TEST(Cgroups, AreFoundInBothVersionsSideBySide) {
  const auto found = find_cgroups("5:memory:/job/7\n4:cpu,cpuacct:/job\n1:name=systemd:/\n0::/\n", hybrid);
  EXPECT_EQ(found.unified, "/sys/fs/cgroup/unified");
  EXPECT_EQ(found.memory, "/sys/fs/cgroup/memory/job/7");
  EXPECT_EQ(found.cpu, "/sys/fs/cgroup/cpu,cpuacct/job");
}

TEST(Cgroups, AreFoundWhereAContainerSeesAPartOfTheHierarchy) {
  const auto* part = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  EXPECT_EQ(find_cgroups("0::/docker/abc\n", part).unified, "/sys/fs/cgroup");
  EXPECT_EQ(find_cgroups("0::/docker/abc/inner\n", part).unified, "/sys/fs/cgroup/inner");
}

/// As a runtime mounts another container's part, or a part for a tool, beside the whole.
TEST(Cgroups, AreFoundWhereTheirMountIsNotTheLast) {
  const auto* beside = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
                       "31 23 0:26 /docker/other /mnt/other rw - cgroup2 cgroup2 rw\n"
                       "32 23 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                       "33 23 0:24 /docker/other /mnt/memory rw - cgroup cgroup rw,memory\n";
  const auto found = find_cgroups("5:memory:/job\n0::/docker/abc\n", beside);
  EXPECT_EQ(found.unified, "/sys/fs/cgroup/docker/abc");
  EXPECT_EQ(found.unified_mount, "/sys/fs/cgroup");
  EXPECT_TRUE(found.unified_seen);
  EXPECT_EQ(found.memory, "/sys/fs/cgroup/memory/job");
  EXPECT_EQ(find_cgroups("0::/docker/other/inner\n", beside).unified, "/mnt/other/inner") << "the newest of two";
}

TEST(Cgroups, AreNotSeenThroughAMountOfOthers) {
  const auto* part = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  const auto found = find_cgroups("0::/docker/abcd\n", part);
  EXPECT_EQ(found.unified, "/sys/fs/cgroup");
  EXPECT_FALSE(found.unified_seen);
  const auto outside = find_cgroups("0::/../job\n", version_2);
  EXPECT_EQ(outside.unified, "/sys/fs/cgroup");
  EXPECT_FALSE(outside.unified_seen);
}

TEST(Cgroups, AreNoneWhereVersion2IsNotMounted) {
  const auto found = find_cgroups("5:memory:/\n", "27 25 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  EXPECT_EQ(found.unified, "");
  EXPECT_EQ(found.memory, "/sys/fs/cgroup/memory");
  EXPECT_EQ(find_cgroups("", "").unified, "");
  EXPECT_EQ(find_cgroups("nonsense\n0", "more nonsense\n").unified, "");
}

/// A group of version 2, as far as it is looked at.
void write_group(const std::filesystem::path& group, const std::string& cpu_stat, const std::string& memory) {
  std::filesystem::create_directories(group);
  std::ofstream(group / "cgroup.procs") << "";
  std::ofstream(group / "cpu.stat") << cpu_stat;
  if (!memory.empty())
    std::ofstream(group / "memory.current") << memory;
}

TEST(Cgroups, AreAccountedForByTheNearestOneAboveThatHasTheController) {
  const temporary_directory directory;
  const std::filesystem::path top = directory.path();
  write_group(top / "root", "usage_usec 9\n", "");
  write_group(top / "root/service", "usage_usec 5\nthrottled_usec 7\n", "4096\n");
  write_group(top / "root/service/dynamix-1", "usage_usec 3\n", "");
  std::ofstream(top / "memory.current") << "of no group\n";
  EXPECT_EQ(nearest_file(top / "root/service/dynamix-1", "memory.current", ""), top / "root/service/memory.current");
  EXPECT_EQ(nearest_file(top / "root/service/dynamix-1", "cpu.stat", "throttled"), top / "root/service/cpu.stat");
  EXPECT_EQ(nearest_file(top / "root/service/dynamix-1", "cpu.stat", "usage"), top / "root/service/dynamix-1/cpu.stat");
  EXPECT_EQ(nearest_file(top / "root", "memory.current", ""), "");
  EXPECT_EQ(nearest_file("", "memory.current", ""), "");
}

} // namespace
} // namespace dynamix::telemetry
