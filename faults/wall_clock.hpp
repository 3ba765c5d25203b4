#pragma once

/// A wall clock that can be made to jump for one process: the file that its preloaded shim (clock_shim.cpp) maps.

#include <cstdint>
#include <string>

namespace dynamix::faults {

/// What the file holds. The shim and the injector touch it with atomic loads and stores alone.
struct clock_page {
  std::int64_t offset_ns;
  std::uint64_t shifted_reads; ///< answers that were off
};

std::string wall_clock_path(const std::string& run_directory, const std::string& host);
/// The shim that comes with the running program; empty where there is none.
std::string clock_shim_path(const std::string& program);

/// Makes the file, if there is none.
class wall_clock {
public:
  explicit wall_clock(const std::string& path);
  wall_clock(const wall_clock&) = delete;
  wall_clock& operator=(const wall_clock&) = delete;
  ~wall_clock();

  bool works() const { return page_ != nullptr; }
  void shift(double seconds);
  std::uint64_t shifted_reads() const;

private:
  clock_page* page_ = nullptr;
};

} // namespace dynamix::faults
