#include "telemetry/cgroup_limits.hpp"
#include "tests/temporary_directory.hpp"

#include <gtest/gtest.h>

namespace dynamix::telemetry {
namespace {

class CgroupLimits : public testing::Test {
protected:
  void write(const std::string& name, const std::string& text) const { root_.write(name, text); }
  cgroup_limits read() const {
    const auto group = root_.file("slice/job");
    return read_limits({.unified = "", .unified_mount = "", .memory = group, .cpu = group});
  }

  const temporary_directory root_;
};

/// `doctor` told a container with half a core and 600 MB of the whole machine.
TEST_F(CgroupLimits, AreTheLowestOfTheGroupAndThoseAbove) {
  write("slice/job/cpu.max", "max 100000\n");
  write("slice/cpu.max", "50000 100000\n");
  write("slice/job/memory.max", "629145600\n");
  write("slice/memory.max", "max\n");
  EXPECT_DOUBLE_EQ(read().cores, 0.5);
  EXPECT_EQ(read().memory_bytes, 629145600U);
}

TEST_F(CgroupLimits, AreReadInVersion1) {
  write("slice/job/cpu.cfs_quota_us", "-1\n");
  write("slice/cpu.cfs_quota_us", "150000\n");
  write("slice/cpu.cfs_period_us", "100000\n");
  write("slice/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_DOUBLE_EQ(read().cores, 1.5);
  EXPECT_EQ(read().memory_bytes, 0U) << "no machine has that much";
}

TEST_F(CgroupLimits, AreNoneWhereNothingSaysSo) {
  EXPECT_EQ(read().cores, 0);
  EXPECT_EQ(read().memory_bytes, 0U);
}

} // namespace
} // namespace dynamix::telemetry
