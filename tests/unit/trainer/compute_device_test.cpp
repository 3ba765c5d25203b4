#include "trainer/compute_device.hpp"

#include <gtest/gtest.h>

namespace dynamix::trainer {
namespace {

TEST(ComputeDevice, IsTheDriversGpuAmongThoseThatCudaShows) {
  EXPECT_EQ(cuda_index(3, nullptr), 3);
  EXPECT_EQ(cuda_index(6, "4,6"), 1);
  EXPECT_EQ(cuda_index(4, " 4 , 6"), 0);
  EXPECT_EQ(cuda_index(5, "GPU-8932f937"), 0) << "there is no other";
  EXPECT_EQ(cuda_index(5, "4,6"), std::nullopt);
  EXPECT_EQ(cuda_index(5, ""), std::nullopt);
}

} // namespace
} // namespace dynamix::trainer
