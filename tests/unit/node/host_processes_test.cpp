#include "node/launch/host_processes.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"
#include "tests/wait_until.hpp"

#include <gtest/gtest.h>

namespace dynamix::node {
namespace {

/// A launcher that looked at a worker's end before it was told of it took the run for over.
TEST(HostProcesses, CountsWhoHasEndedUntilItIsReaped) {
  temporary_directory directory;
  auto hosts = testing::pair_file().hosts;
  for (auto& host : hosts)
    host.roles = {cluster::role::worker};
  host_processes processes(hosts, {}, [&](const cluster::host& host, bool) {
    return child_options{
        .program = "/bin/sh", .arguments = {"-c", "exit 3"}, .output = directory.path() + "/" + host.name};
  });
  ASSERT_EQ(processes.start_all(false), "");
  for (const auto& host : hosts)
    EXPECT_TRUE(wait_until([&] { return !processes.running(host.name); }));
  EXPECT_TRUE(processes.any_running(true));
  EXPECT_EQ(processes.reap().size(), hosts.size());
  EXPECT_FALSE(processes.any_running(true));
  EXPECT_EQ(processes.reap().size(), 0U);
}

} // namespace
} // namespace dynamix::node
