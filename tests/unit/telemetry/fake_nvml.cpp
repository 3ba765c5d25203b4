/// Two GPUs as NVML would tell of them: the library's part that the probe calls, and what FAKE_NVML in the environment
/// breaks of it. A process that FAKE_NVML_PROCESS names computes on the first. FAKE_NVML_OLD builds one that lacks a
/// function, FAKE_NVML_RENAMED one with a function's newer name.

#include <cstdlib>
#include <string_view>

namespace {

struct utilization {
  unsigned gpu;
  unsigned memory;
};
struct memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct computing_process {
  unsigned pid;
  unsigned long long memory;
  unsigned instance;
  unsigned compute_instance;
};

// nvmlReturn_t
constexpr int invalid_argument = 2;
constexpr int not_supported = 3;
constexpr int insufficient_size = 7;
constexpr int driver_not_loaded = 9;
constexpr int gpu_is_lost = 15;

int first = 0;
int second = 1;

bool is_broken(std::string_view what) {
  const char* broken = std::getenv("FAKE_NVML");
  return broken != nullptr && what == broken;
}

int answer(const void* device) {
  return is_broken("all lost") || (is_broken("first lost") && device == &first) ? gpu_is_lost : 0;
}

} // namespace

extern "C" {

int nvmlInit_v2() {
  return is_broken("no driver") ? driver_not_loaded : 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = is_broken("no gpu") ? 0 : 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = index == 0 ? &first : &second;
  return index < 2 ? 0 : invalid_argument;
}
int nvmlDeviceGetUtilizationRates(void* device, utilization* used) {
  *used = {device == &first ? 80U : 40U, 10U};
  return answer(device);
}
#ifndef FAKE_NVML_OLD
int nvmlDeviceGetMemoryInfo(void* device, memory* space) {
  const unsigned long long used = device == &first ? 20 : 60;
  *space = {80, 80 - used, used};
  return answer(device);
}
#endif
#ifdef FAKE_NVML_RENAMED
int nvmlDeviceGetComputeRunningProcesses_v2(void* device, unsigned* count, computing_process* running) {
#else
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, computing_process* running) {
#endif
  const char* process = std::getenv("FAKE_NVML_PROCESS");
  const unsigned room = *count;
  *count = device == &first && process != nullptr ? 2 : 1;
  if (room < *count || is_broken("many processes"))
    return insufficient_size;
  running[0] = {4'000'000'000U, 1, 0, 0};
  if (*count == 2)
    running[1] = {static_cast<unsigned>(std::strtoul(process, nullptr, 10)), 1, 0, 0};
  return 0;
}
#ifdef FAKE_NVML_RENAMED
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
#else
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
#endif
  *reasons = device == &first ? 0x1 : 0x40; // idle; too hot
  if (is_broken("cool"))
    *reasons = 0x1 | 0x2 | 0x10 | 0x100; // idle, set by a user, in step with others, set by a display
  return is_broken("no reasons") ? not_supported : 0;
}
}
