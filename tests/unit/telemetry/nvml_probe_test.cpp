#include "telemetry/probe.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>

namespace dynamix::telemetry {
namespace {

TEST(nvml_probe, sums_up_the_machines_gpus) {
  // Loaded before, it is what the probe finds under NVML's name.
  void* const library = ::dlopen(DYNAMIX_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  counters sampled;
  make_nvml_probe()->sample(sampled);
  ::dlclose(library);
  ASSERT_TRUE(sampled.gpu.valid);
  EXPECT_DOUBLE_EQ(sampled.gpu.utilisation_ratio, 0.6);
  EXPECT_DOUBLE_EQ(sampled.gpu.memory_ratio, 0.75);
  EXPECT_TRUE(sampled.gpu.throttled);
}

TEST(nvml_probe, is_masked_without_a_driver_and_says_so) {
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
