#include "telemetry/cgroup.hpp"

#include <gtest/gtest.h>

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

TEST(Cgroups, AreNoneWhereVersion2IsNotMounted) {
  const auto found = find_cgroups("5:memory:/\n", "27 25 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  EXPECT_EQ(found.unified, "");
  EXPECT_EQ(found.memory, "/sys/fs/cgroup/memory");
  EXPECT_EQ(find_cgroups("", "").unified, "");
  EXPECT_EQ(find_cgroups("nonsense\n0", "more nonsense\n").unified, "");
}

} // namespace
} // namespace dynamix::telemetry
