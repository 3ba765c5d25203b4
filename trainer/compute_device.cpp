#include "trainer/compute_device.hpp"

#include "trainer/compute_threads.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <fmt/core.h>
#include <sstream>

namespace dynamix::trainer {

std::optional<std::int32_t> cuda_index(std::int32_t gpu, const char* visible) {
  if (visible == nullptr)
    return gpu;
  std::istringstream names(visible);
  std::int32_t index = 0;
  for (std::string name; std::getline(names >> std::ws, name, ','); ++index)
    if (name.substr(0, name.find_last_not_of(' ') + 1) == std::to_string(gpu))
      return index;
  return index == 1 ? std::optional(0) : std::nullopt;
}

namespace {

std::optional<std::int32_t> own_index(std::span<const std::int32_t> gpus) {
  return cuda_index(gpus.front(), std::getenv("CUDA_VISIBLE_DEVICES"));
}

} // namespace

std::string check_device(const std::string& wanted, std::span<const std::int32_t> gpus) {
  const auto there = static_cast<std::int64_t>(torch::cuda::device_count());
  if (wanted == "cuda" && there == 0)
    return "device = \"cuda\", but this LibTorch finds no CUDA device; allowed here are \"auto\" and \"cpu\"";
  if (wanted == "cpu" || there == 0 || gpus.empty())
    return {};
  const auto index = own_index(gpus);
  if (!index || *index >= there)
    return fmt::format("this host's GPU is {}, which is not among the {} that CUDA shows here (CUDA_VISIBLE_DEVICES)",
                       gpus.front(), there);
  return {};
}

torch::Device device_for(const std::string& wanted, std::span<const std::int32_t> gpus) {
  if (wanted == "cpu" || !torch::cuda::is_available())
    return torch::kCPU;
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(gpus.empty() ? 0 : own_index(gpus).value_or(0))};
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
