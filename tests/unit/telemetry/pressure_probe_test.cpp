#include "telemetry/probe.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace dynamix::telemetry {
namespace {

counters sample_at(probe& of, double seconds) {
  counters into;
  into.monotonic_seconds = seconds;
  of.sample(into);
  return into;
}

/// Seconds in which some task of the machine waited for a CPU.
double waited_seconds() {
  std::string word;
  std::ifstream file("/proc/pressure/cpu");
  while (file >> word)
    if (word.starts_with("total="))
      return 1e-6 * std::stod(word.substr(6));
  return -1;
}

TEST(PressureProbe, TellsWhatGrewBetweenTwoReadingsAndHoldsItForHalfASecond) {
  if (waited_seconds() < 0)
    GTEST_SKIP() << "no PSI here";
  const auto probe = make_pressure_probe();
  constexpr double far = 1e6; // seconds: no share is clamped, and times are the test's own
  const double before_first = waited_seconds();
  EXPECT_EQ(sample_at(*probe, 0).cpu_pressure_ratio, 0) << "of one reading nothing is known";
  const double after_first = waited_seconds();
  const double before_second = waited_seconds();
  const auto second = sample_at(*probe, far);
  const double after_second = waited_seconds();
  ASSERT_TRUE(second.pressure_valid);
  EXPECT_GE(second.cpu_pressure_ratio * far, before_second - after_first - 1e-5);
  EXPECT_LE(second.cpu_pressure_ratio * far, after_second - before_first + 1e-5);

  const auto held = sample_at(*probe, far + 0.9 * slow_signal_seconds);
  EXPECT_TRUE(held.pressure_valid);
  EXPECT_EQ(held.cpu_pressure_ratio, second.cpu_pressure_ratio);
  EXPECT_EQ(held.cgroup_memory_bytes, second.cgroup_memory_bytes);

  const auto third = sample_at(*probe, 2 * far);
  EXPECT_GE(third.cpu_pressure_ratio * far, 0);
  EXPECT_LE(third.cpu_pressure_ratio * far, waited_seconds() - before_second + 1e-5) << "since the second reading";
}

TEST(PressureProbe, ReadsTheSecondTimeHoweverEarlyItIs) {
  if (waited_seconds() < 0)
    GTEST_SKIP() << "no PSI here";
  const auto probe = make_pressure_probe();
  const double before = waited_seconds();
  sample_at(*probe, 0);
  constexpr double early = 0.1 * slow_signal_seconds;
  const auto second = sample_at(*probe, early);
  EXPECT_TRUE(second.pressure_valid);
  EXPECT_LE(second.cpu_pressure_ratio * early, waited_seconds() - before + 1e-5);
}

} // namespace
} // namespace dynamix::telemetry
