#include "trainer/compute_device.hpp"

#include "trainer/compute_threads.hpp"

#include <dlfcn.h>

namespace dynamix::trainer {

std::string check_device(const std::string& wanted) {
  if (wanted == "cuda" && !torch::cuda::is_available())
    return "device = \"cuda\", but this LibTorch finds no CUDA device; allowed here are \"auto\" and \"cpu\"";
  return {};
}

torch::Device device_for(const std::string& wanted) {
  if (wanted == "cpu" || !torch::cuda::is_available())
    return torch::kCPU;
  return torch::kCUDA;
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
