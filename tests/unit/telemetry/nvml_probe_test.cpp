#include "telemetry/probe.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>
#include <string>

namespace dynamix::telemetry {
namespace {

struct reading {
  messages::gpu_statistics gpu;
  std::string problem;
};

/// What the probe finds with `library` under NVML's name, which is broken so.
reading read_with(const char* library, const char* broken = "", int process = 0) {
  void* const loaded = ::dlopen(library, RTLD_NOW | RTLD_LOCAL); // loaded before, it is what the probe finds
  EXPECT_NE(loaded, nullptr) << ::dlerror();
  ::setenv("FAKE_NVML", broken, 1);
  counters sampled;
  reading found;
  {
    const auto probe = make_nvml_probe(process);
    probe->sample(sampled);
    found = {sampled.gpu, probe->problem()};
  }
  ::unsetenv("FAKE_NVML");
  ::dlclose(loaded);
  return found;
}

TEST(NvmlProbe, SumsUpTheMachinesGpus) {
  for (const char* library : {DYNAMIX_FAKE_NVML, DYNAMIX_FAKE_NVML_RENAMED}) {
    const auto gpu = read_with(library).gpu;
    ASSERT_TRUE(gpu.valid);
    EXPECT_DOUBLE_EQ(gpu.utilisation_ratio, 0.6);
    EXPECT_DOUBLE_EQ(gpu.memory_ratio, 0.75);
    EXPECT_TRUE(gpu.throttled);
  }
}

TEST(NvmlProbe, MeasuresTheGpusOfOneProcess) {
  ::setenv("FAKE_NVML_PROCESS", "42", 1);
  for (const char* library : {DYNAMIX_FAKE_NVML, DYNAMIX_FAKE_NVML_RENAMED}) {
    const auto of_it = read_with(library, "", 42).gpu;
    ASSERT_TRUE(of_it.valid);
    EXPECT_DOUBLE_EQ(of_it.utilisation_ratio, 0.8);
    EXPECT_DOUBLE_EQ(of_it.memory_ratio, 0.25);
    EXPECT_FALSE(of_it.throttled);
    EXPECT_DOUBLE_EQ(read_with(library, "", 43).gpu.utilisation_ratio, 0.6) << "it is on none that NVML tells of";
    EXPECT_DOUBLE_EQ(read_with(library, "many processes", 42).gpu.utilisation_ratio, 0.6);
  }
  ::unsetenv("FAKE_NVML_PROCESS");
}

TEST(NvmlProbe, TakesForThrottledOnlyWhatIsHeldDown) {
  EXPECT_FALSE(read_with(DYNAMIX_FAKE_NVML, "cool").gpu.throttled);
  const auto unknown = read_with(DYNAMIX_FAKE_NVML, "no reasons").gpu;
  EXPECT_TRUE(unknown.valid) << "not every GPU tells";
  EXPECT_FALSE(unknown.throttled);
}

TEST(NvmlProbe, IsReadAnewAfterHalfASecond) {
  void* const loaded = ::dlopen(DYNAMIX_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(loaded, nullptr) << ::dlerror();
  ::setenv("FAKE_NVML", "cool", 1);
  {
    const auto probe = make_nvml_probe();
    const auto throttled_at = [&](double seconds) {
      counters sampled;
      sampled.monotonic_seconds = seconds;
      probe->sample(sampled);
      EXPECT_TRUE(sampled.gpu.valid);
      return sampled.gpu.throttled;
    };
    EXPECT_FALSE(throttled_at(0));
    ::setenv("FAKE_NVML", "", 1);
    EXPECT_FALSE(throttled_at(0.9 * slow_signal_seconds));
    EXPECT_TRUE(throttled_at(slow_signal_seconds));
  }
  ::unsetenv("FAKE_NVML");
  ::dlclose(loaded);
}

TEST(NvmlProbe, LeavesOutAGpuThatDoesNotAnswer) {
  const auto gpu = read_with(DYNAMIX_FAKE_NVML, "first lost").gpu;
  ASSERT_TRUE(gpu.valid);
  EXPECT_DOUBLE_EQ(gpu.utilisation_ratio, 0.4);
  EXPECT_DOUBLE_EQ(gpu.memory_ratio, 0.75);
}

TEST(NvmlProbe, IsMaskedWithTheReasonWhereNothingAnswers) {
  struct {
    const char* library;
    const char* broken;
    const char* reason;
  } const cases[] = {{DYNAMIX_FAKE_NVML, "all lost", "no GPU answers"},
                     {DYNAMIX_FAKE_NVML, "no gpu", "NVML sees no GPU"},
                     {DYNAMIX_FAKE_NVML, "no driver", "NVML found no driver that runs"},
                     {DYNAMIX_FAKE_NVML_OLD, "", "libnvidia-ml.so.1 is too old"}};
  for (const auto& each : cases) {
    const auto found = read_with(each.library, each.broken);
    EXPECT_FALSE(found.gpu.valid) << each.reason;
    EXPECT_EQ(found.problem, each.reason);
  }
}

TEST(NvmlProbe, IsMaskedWithoutADriverAndSaysSo) {
  if (void* const real = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL); real != nullptr) {
    ::dlclose(real);
    GTEST_SKIP() << "there is a driver here";
  }
  counters sampled;
  const auto probe = make_nvml_probe();
  probe->sample(sampled);
  EXPECT_FALSE(sampled.gpu.valid);
  EXPECT_NE(probe->problem().find("libnvidia-ml.so.1"), std::string::npos);
}

} // namespace
} // namespace dynamix::telemetry
