#include "telemetry/cgroup.hpp"
#include "telemetry/probe.hpp"
#include "telemetry/small_file.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace dynamix::telemetry {
namespace {

/// "some avg10=0.00 avg60=0.00 avg300=0.00 total=<microseconds>" (the kernel's Documentation/accounting/psi.rst).
bool read_pressure(const kept_file& file, double& seconds) {
  char text[256];
  std::uint64_t total_us = 0;
  if (!file.read_start(text, sizeof(text)))
    return false;
  const char* total = std::strstr(text, "total=");
  if (total == nullptr || std::sscanf(total, "total=%" SCNu64, &total_us) != 1)
    return false;
  seconds = 1e-6 * static_cast<double>(total_us);
  return true;
}

bool read_number(const kept_file& file, std::uint64_t& number) {
  char text[64];
  return file.read_start(text, sizeof(text)) && std::sscanf(text, "%" SCNu64, &number) == 1;
}

/// cpu.stat has throttled_usec in version 2 and throttled_time, in nanoseconds, in version 1.
double read_throttled_seconds(const kept_file& file) {
  char text[1024];
  std::uint64_t time = 0;
  if (!file.read_start(text, sizeof(text)))
    return 0;
  if (const char* line = std::strstr(text, "throttled_usec "); line != nullptr)
    return std::sscanf(line, "throttled_usec %" SCNu64, &time) == 1 ? 1e-6 * static_cast<double>(time) : 0;
  const char* line = std::strstr(text, "throttled_time ");
  return line != nullptr && std::sscanf(line, "throttled_time %" SCNu64, &time) == 1 ? 1e-9 * static_cast<double>(time)
                                                                                     : 0;
}

kept_file open_file(const std::string& path) {
  return kept_file(AT_FDCWD, path.c_str());
}

class pressure_probe final : public probe {
public:
  pressure_probe() {
    const auto places = find_own_cgroups();
    if (places.memory.empty())
      return;
    memory_ = open_file(places.memory + "/memory.current");
    if (memory_.descriptor() < 0)
      memory_ = open_file(places.memory + "/memory.usage_in_bytes");
    throttling_ = open_file(places.cpu + "/cpu.stat");
  }

  std::string name() const override { return "PSI"; }
  std::string problem() const override { return "PSI needs /proc/pressure (CONFIG_PSI; boot with psi=1)"; }

  void sample(counters& into) override {
    into.pressure_valid = read_pressure(cpu_pressure_, into.cpu_pressure_seconds) &&
                          read_pressure(memory_pressure_, into.memory_pressure_seconds) &&
                          read_pressure(io_pressure_, into.io_pressure_seconds);
    read_number(memory_, into.cgroup_memory_bytes);
    into.throttled_seconds = read_throttled_seconds(throttling_);
  }

private:
  kept_file cpu_pressure_ = open_file("/proc/pressure/cpu");
  kept_file memory_pressure_ = open_file("/proc/pressure/memory");
  kept_file io_pressure_ = open_file("/proc/pressure/io");
  kept_file memory_;
  kept_file throttling_;
};

} // namespace

std::unique_ptr<probe> make_pressure_probe() {
  return std::make_unique<pressure_probe>();
}

} // namespace dynamix::telemetry
