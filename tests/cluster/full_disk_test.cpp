#include "tests/cluster/trial.hpp"

#include <filesystem>
#include <sys/mount.h>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;

/// A run directory on a file system of 64 KiB, which a run soon fills.
class FullDisk : public trial {
protected:
  void SetUp() override {
    std::filesystem::create_directories(run().path());
    mounted_ = ::mount("tmpfs", run().path().c_str(), "tmpfs", 0, "size=64k") == 0;
    if (!mounted_)
      GTEST_SKIP() << "only root may mount";
  }
  void TearDown() override {
    if (mounted_)
      ::umount2(run().path().c_str(), MNT_DETACH);
  }

private:
  bool mounted_ = false;
};

/// The hosts were started again for ever, each time from the beginning.
TEST_F(FullDisk, EndsTheRunWithTheReason) {
  write_file({.epochs = 1, .cluster = patient_cluster});
  const auto ended = end_of({"local", "--cluster", file(), "--out", run().path() + "/run"});
  EXPECT_EQ(ended.code, 1) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("no space is left on the disk of "));
  EXPECT_THAT(ended.output, testing::Not(HasSubstr("restarting")));
}

} // namespace
} // namespace dynamix::cluster_test
