#include "trainer/compute_device.hpp"

#include "trainer/compute_threads.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

namespace dynamix::trainer {

std::string check_device(const std::string& wanted, std::span<const std::int32_t> gpus) {
  const auto there = static_cast<std::int64_t>(torch::cuda::device_count());
  if (wanted == "cuda" && there == 0)
    return "device = \"cuda\", but this LibTorch finds no CUDA device; allowed here are \"auto\" and \"cpu\"";
  if (wanted != "cpu" && there > 0 && !gpus.empty() && gpus.front() >= there)
    return fmt::format("this host's GPU is {}, but CUDA shows {} here, counted from 0", gpus.front(), there);
  return {};
}

torch::Device device_for(const std::string& wanted, std::span<const std::int32_t> gpus) {
  if (wanted == "cpu" || !torch::cuda::is_available())
    return torch::kCPU;
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(gpus.empty() ? 0 : gpus.front())};
}

/// OpenBLAS keeps threads of its own, one a core unless told otherwise, which several workers on one machine would
/// fight over. It is there or not depending on what provides the BLAS.
void set_compute_threads(int threads) {
  at::set_num_threads(threads);
  using setter = void (*)(int);
  if (auto* set = reinterpret_cast<setter>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads")))
    set(threads);
}

} // namespace dynamix::trainer
