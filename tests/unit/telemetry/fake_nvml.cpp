/// Two GPUs as NVML would tell of them: the library's part that the probe calls.

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

int first = 0;
int second = 1;

} // namespace

extern "C" {

int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = index == 0 ? &first : &second;
  return index < 2 ? 0 : 2;
}
int nvmlDeviceGetUtilizationRates(void* device, utilization* used) {
  *used = {device == &first ? 80U : 40U, 10U};
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, memory* space) {
  const unsigned long long used = device == &first ? 20 : 60;
  *space = {80, 80 - used, used};
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = device == &first ? 0x1 : 0x40; // idle; too hot
  return 0;
}
}
