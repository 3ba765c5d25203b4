#include "faults/wall_clock.hpp"

#include <atomic>
#include <cmath>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <unistd.h>

namespace dynamix::faults {

std::string wall_clock_path(const std::string& run_directory, const std::string& host) {
  return run_directory + "/clock-" + host;
}

std::string clock_shim_path(const std::string& program) {
  std::error_code error;
  for (const auto* directory : {".", "../libexec/dynamix"}) // of a build, and as it is installed
    if (const auto path = std::filesystem::path(program).parent_path() / directory / "libdynamix_clock_shim.so";
        std::filesystem::exists(path, error))
      return path.lexically_normal().string();
  return "";
}

wall_clock::wall_clock(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0)
    return;
  if (::ftruncate(descriptor, sizeof(clock_page)) == 0)
    if (void* mapped = ::mmap(nullptr, sizeof(clock_page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        mapped != MAP_FAILED)
      page_ = static_cast<clock_page*>(mapped);
  ::close(descriptor);
}

wall_clock::~wall_clock() {
  if (page_ != nullptr)
    ::munmap(page_, sizeof(clock_page));
}

void wall_clock::shift(double seconds) {
  if (page_ != nullptr)
    std::atomic_ref(page_->offset_ns).store(std::llround(seconds * 1e9));
}

std::uint64_t wall_clock::shifted_reads() const {
  return page_ == nullptr ? 0 : std::atomic_ref(page_->shifted_reads).load();
}

} // namespace dynamix::faults
