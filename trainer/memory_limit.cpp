#include "trainer/memory_limit.hpp"

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <malloc.h>
#include <mutex>
#include <unistd.h>

/// tcmalloc's, where it is linked: it keeps what is freed, as malloc does.
extern "C" void MallocExtension_ReleaseFreeMemory() __attribute__((weak));

namespace dynamix::trainer {

namespace {

constexpr std::size_t checked_bytes_min = 256 << 10; ///< smaller tensors are not worth looking

std::atomic<std::uint64_t> tensor_limit = 0;

bool fits(std::size_t bytes, std::uint64_t limit) {
  return own_resident_bytes() + bytes <= limit;
}

void check_fits(std::size_t bytes) {
  const auto limit = tensor_limit.load(std::memory_order_relaxed);
  if (limit == 0 || bytes < checked_bytes_min || fits(bytes, limit))
    return;
  // What is freed may still be in memory.
  if (MallocExtension_ReleaseFreeMemory != nullptr)
    MallocExtension_ReleaseFreeMemory();
  ::malloc_trim(0);
  TORCH_CHECK(fits(bytes, limit), "out of memory: a tensor of ", bytes >> 20U,
              " MB does not fit into what is left of this process's ", limit >> 20U, " MB");
}

class limited_allocator final : public c10::Allocator {
public:
  explicit limited_allocator(c10::Allocator* below) : below_(below) {}
#if TORCH_VERSION_MAJOR >= 2
  c10::DataPtr allocate(std::size_t bytes) override {
    check_fits(bytes);
    return below_->allocate(bytes);
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
#else
  c10::DataPtr allocate(std::size_t bytes) const override {
    check_fits(bytes);
    return below_->allocate(bytes);
  }
#endif
  c10::DeleterFnPtr raw_deleter() const override {
    return below_->raw_deleter();
  }

private:
  c10::Allocator* below_;
};

} // namespace

std::uint64_t own_resident_bytes() {
  static const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  std::array<char, 128> text{};
  if (file < 0 || ::pread(file, text.data(), text.size() - 1, 0) <= 0)
    return 0;
  unsigned long long pages = 0;
  unsigned long long shared = 0;
  if (std::sscanf(text.data(), "%*u %llu %llu", &pages, &shared) != 2) // NOLINT(cert-err34-c): the kernel's numbers
    return 0;
  return (pages - std::min(pages, shared)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void limit_tensor_memory(std::uint64_t bytes) {
  static std::once_flag once;
  if (bytes > 0)
    std::call_once(once, [] { c10::SetCPUAllocator(new limited_allocator(c10::GetCPUAllocator()), 1); });
  tensor_limit = bytes;
}

} // namespace dynamix::trainer
