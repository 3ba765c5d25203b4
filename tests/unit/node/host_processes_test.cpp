#include "node/launch/host_processes.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace dynamix::node {
namespace {

/// A launcher that looked at a worker's end before it was told of it took the run for over.
TEST(HostProcesses, CountsWhoHasEndedUntilItIsReaped) {
  testing::temporary_directory directory;
  auto hosts = testing::pair_file().hosts;
  for (auto& host : hosts)
    host.roles = {cluster::role::worker};
  host_processes processes(hosts, {}, [&](const cluster::host& host, bool) {
    return child_options{
        .program = "/bin/sh", .arguments = {"-c", "exit 3"}, .output = directory.path() + "/" + host.name};
  });
  ASSERT_EQ(processes.start_all(false), "");
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (const auto& host : hosts)
    while (processes.running(host.name) && std::chrono::steady_clock::now() < patience)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(processes.any_running(true));
  EXPECT_EQ(processes.reap().size(), hosts.size());
  EXPECT_FALSE(processes.any_running(true));
  EXPECT_EQ(processes.reap().size(), 0U);
}

} // namespace
} // namespace dynamix::node
