#include "links/free_port.hpp"
#include "swarm/clock.hpp"
#include "swarm/process_usage.hpp"
#include "tests/loopback_address.hpp"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::swarm {
namespace {

TEST(ProcessUsage, CountsTheSecondsThatThisProcessComputes) {
  const auto before = usage_of(getpid());
  ASSERT_TRUE(before);
  timespec began{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
  volatile double sink = 0;
  timespec now = began;
  while ((now.tv_sec - began.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - began.tv_nsec) < 0.1) {
    for (int i = 0; i < 1000; ++i)
      sink = sink + i;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  }
  const auto after = usage_of(getpid());
  ASSERT_TRUE(after);
  EXPECT_NEAR(after->cpu_seconds - before->cpu_seconds, 0.1, 0.05);
  EXPECT_GT(after->memory_bytes, 1U << 20);
}

TEST(ProcessUsage, IsNothingForAProcessThatIsNotThere) {
  EXPECT_FALSE(usage_of(-1));
}

TEST(Listening, IsSeenWithoutAConnection) {
  const auto port = links::take_free_port();
  ASSERT_NE(port, 0);
  EXPECT_FALSE(is_listening(port));
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback_address(port);
  ASSERT_EQ(bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_FALSE(is_listening(port));
  ASSERT_EQ(listen(descriptor, 1), 0);
  EXPECT_TRUE(is_listening(port));
  close(descriptor);
}

} // namespace
} // namespace dynamix::swarm
