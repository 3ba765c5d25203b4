#include "telemetry/window_meter.hpp"
#include "tests/unit/telemetry/loopback.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace dynamix::telemetry {
namespace {

std::vector<std::unique_ptr<probe>> real_probes() {
  std::vector<std::unique_ptr<probe>> probes;
  probes.push_back(make_tcp_info_probe());
  probes.push_back(make_procfs_probe());
  return probes;
}

std::vector<std::unique_ptr<probe>> only(std::unique_ptr<probe> one) {
  std::vector<std::unique_ptr<probe>> probes;
  probes.push_back(std::move(one));
  return probes;
}

TEST(window_meter, attributes_each_transfer_to_its_own_window) {
  const loopback_connection connection;
  window_meter meter(real_probes());
  connection.transfer(5'000'000);
  std::this_thread::sleep_for(std::chrono::milliseconds(300)); // the last acknowledgement may be delayed
  const window_measurement first = meter.close_window();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const window_measurement second = meter.close_window();
  ASSERT_TRUE(first.network.valid);
  ASSERT_TRUE(second.network.valid);
  EXPECT_GT(first.network.throughput_bytes_per_second, 0);
  EXPECT_EQ(second.network.throughput_bytes_per_second, 0);
}

TEST(window_meter, reads_a_busy_thread_as_its_share_of_the_window) {
  window_meter meter(real_probes());
  const auto began = std::chrono::steady_clock::now();
  timespec cpu_before{};
  timespec cpu_after{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_before);
  while (std::chrono::steady_clock::now() - began < std::chrono::milliseconds(300)) {
  }
  const window_measurement measured = meter.close_window();
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_after);
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const double cpu = static_cast<double>(cpu_after.tv_sec - cpu_before.tv_sec) +
                     1e-9 * static_cast<double>(cpu_after.tv_nsec - cpu_before.tv_nsec);
  ASSERT_TRUE(measured.system.valid);
  // The kernel's own clock of the process says what share it had; on a crowded machine that is less than 1.
  EXPECT_NEAR(measured.system.cpu_time_ratio, cpu / wall, 0.1);
  EXPECT_GT(measured.system.cpu_time_ratio, 0.1);
}

TEST(window_meter, states_what_sampling_cost) {
  window_meter meter(real_probes());
  const double seconds = meter.close_window().sampling_seconds;
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 1);
}

TEST(window_meter, masks_every_signal_without_a_probe) {
  window_meter none(only(make_null_probe()));
  const window_measurement nothing = none.close_window();
  EXPECT_FALSE(nothing.network.valid);
  EXPECT_FALSE(nothing.system.valid);

  window_meter network_only(only(make_tcp_info_probe()));
  const window_measurement network = network_only.close_window();
  EXPECT_TRUE(network.network.valid);
  EXPECT_FALSE(network.system.valid);

  window_meter system_only(only(make_procfs_probe()));
  const window_measurement system = system_only.close_window();
  EXPECT_FALSE(system.network.valid);
  EXPECT_TRUE(system.system.valid);
}

} // namespace
} // namespace dynamix::telemetry
