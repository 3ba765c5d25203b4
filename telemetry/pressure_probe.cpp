#include "telemetry/cgroup.hpp"
#include "telemetry/cgroup_limits.hpp"
#include "telemetry/probe.hpp"
#include "telemetry/small_file.hpp"

#include <cstdint>

namespace dynamix::telemetry {
namespace {

/// "some avg10=0.00 avg60=0.00 avg300=0.00 total=<microseconds>" (the kernel's Documentation/accounting/psi.rst).
bool read_pressure(const kept_file& file, double& seconds) {
  char text[256];
  std::uint64_t total_us = 0;
  if (!file.read_start(text, sizeof(text)) || !find_number(text, "total=", total_us))
    return false;
  seconds = 1e-6 * static_cast<double>(total_us);
  return true;
}

std::uint64_t read_number(const kept_file& file) {
  char text[64];
  const char* begin = text;
  std::uint64_t number = 0;
  return file.read_start(text, sizeof(text)) && take_number(begin, number) ? number : 0;
}

double read_throttled_seconds(const kept_file& file) {
  char text[1024];
  return file.read_start(text, sizeof(text)) ? stopped_seconds(text) : 0;
}

kept_file open_file(const std::string& path) {
  return kept_file(AT_FDCWD, path.c_str());
}

class pressure_probe final : public probe {
public:
  explicit pressure_probe(int process) {
    const auto places = process == 0 ? find_own_cgroups() : find_cgroups_of(process);
    memory_ = open_file(nearest_file(places.memory, "memory.current", ""));
    if (memory_.descriptor() < 0)
      memory_ = open_file(nearest_file(places.memory, "memory.usage_in_bytes", ""));
    throttling_ = open_file(nearest_file(places.cpu, "cpu.stat", "throttled"));
  }

  std::string name() const override { return "PSI"; }
  std::string problem() const override { return "PSI needs /proc/pressure (CONFIG_PSI; boot with psi=1)"; }

  void sample(counters& into) override {
    const double passed_seconds = into.monotonic_seconds - last_.at_seconds;
    if (readings_ < 2 || passed_seconds >= slow_signal_seconds)
      read(into.monotonic_seconds, passed_seconds);
    into.pressure_valid = levels_.pressure_valid;
    into.cpu_pressure_ratio = levels_.cpu_pressure_ratio;
    into.memory_pressure_ratio = levels_.memory_pressure_ratio;
    into.io_pressure_ratio = levels_.io_pressure_ratio;
    into.cgroup_memory_bytes = levels_.cgroup_memory_bytes;
    into.throttled_ratio = levels_.throttled_ratio;
  }

private:
  struct totals {
    double at_seconds = 0;
    double cpu_seconds = 0;
    double memory_seconds = 0;
    double io_seconds = 0;
    double throttled_seconds = 0;
  };

  void read(double now_seconds, double passed_seconds) {
    totals now{.at_seconds = now_seconds, .throttled_seconds = read_throttled_seconds(throttling_)};
    levels_.pressure_valid = read_pressure(cpu_pressure_, now.cpu_seconds) &&
                             read_pressure(memory_pressure_, now.memory_seconds) &&
                             read_pressure(io_pressure_, now.io_seconds);
    levels_.cgroup_memory_bytes = read_number(memory_);
    if (readings_ > 0 && passed_seconds > 0) {
      levels_.cpu_pressure_ratio = (now.cpu_seconds - last_.cpu_seconds) / passed_seconds;
      levels_.memory_pressure_ratio = (now.memory_seconds - last_.memory_seconds) / passed_seconds;
      levels_.io_pressure_ratio = (now.io_seconds - last_.io_seconds) / passed_seconds;
      levels_.throttled_ratio = (now.throttled_seconds - last_.throttled_seconds) / passed_seconds;
    }
    last_ = now;
    ++readings_;
  }

  totals last_;
  counters levels_; ///< the fields that this probe writes
  std::uint64_t readings_ = 0;
  kept_file cpu_pressure_ = open_file("/proc/pressure/cpu");
  kept_file memory_pressure_ = open_file("/proc/pressure/memory");
  kept_file io_pressure_ = open_file("/proc/pressure/io");
  kept_file memory_;
  kept_file throttling_;
};

} // namespace

std::unique_ptr<probe> make_pressure_probe(int process) {
  return std::make_unique<pressure_probe>(process);
}

} // namespace dynamix::telemetry
