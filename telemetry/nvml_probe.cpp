#include "telemetry/probe.hpp"

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <vector>

namespace dynamix::telemetry {
namespace {

// What is used of nvml.h (NVML API Reference): the library is looked for at run time, so that none is needed to build.
using device = void*;
struct utilization {
  unsigned gpu = 0; ///< percent of the last sampling period, 1/6 s to 1 s
  unsigned memory = 0;
};
struct memory {
  unsigned long long total = 0; ///< bytes
  unsigned long long free = 0;
  unsigned long long used = 0;
};
/// nvmlProcessInfo_v2_t, which nvmlDeviceGetComputeRunningProcesses_v3 fills in, too.
struct computing_process {
  unsigned pid = 0;
  unsigned long long memory = 0; ///< bytes
  unsigned instance = 0;
  unsigned compute_instance = 0;
};
constexpr int success = 0;
constexpr unsigned devices_max = 64;
constexpr unsigned processes_max = 256; ///< of a device; where there are more, nothing is known of them
/// nvmlClocksThrottleReason: SwPowerCap, HwSlowdown, SwThermalSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown. The
/// others (idle, set by a user, by a display) hold nothing down that was wanted.
constexpr unsigned long long held_down = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

class nvml_probe final : public probe {
public:
  explicit nvml_probe(int process) : process_(process), library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) {
      problem_ = "there is no libnvidia-ml.so.1 (NVIDIA's driver)";
      return;
    }
    int (*init)() = nullptr;
    int (*count)(unsigned*) = nullptr;
    int (*handle)(unsigned, device*) = nullptr;
    if (!find(init, "nvmlInit_v2") || !find(shutdown_, "nvmlShutdown") || !find(count, "nvmlDeviceGetCount_v2") ||
        !find(handle, "nvmlDeviceGetHandleByIndex_v2") || !find(utilization_, "nvmlDeviceGetUtilizationRates") ||
        !find(memory_, "nvmlDeviceGetMemoryInfo")) {
      shutdown_ = nullptr;
      problem_ = "libnvidia-ml.so.1 is too old";
      return;
    }
    // Not every device has it; renamed in NVML 12, which keeps the old name.
    if (!find(reasons_, "nvmlDeviceGetCurrentClocksThrottleReasons"))
      find(reasons_, "nvmlDeviceGetCurrentClocksEventReasons");
    if (!find(processes_, "nvmlDeviceGetComputeRunningProcesses_v3"))
      find(processes_, "nvmlDeviceGetComputeRunningProcesses_v2");
    if (init() != success) {
      shutdown_ = nullptr;
      problem_ = "NVML found no driver that runs";
      return;
    }
    unsigned devices = 0;
    count(&devices);
    for (unsigned i = 0; i < std::min(devices, devices_max); ++i)
      if (device one = nullptr; handle(i, &one) == success)
        devices_.push_back(one);
    if (devices_.empty())
      problem_ = "NVML sees no GPU";
  }
  nvml_probe(const nvml_probe&) = delete;
  nvml_probe& operator=(const nvml_probe&) = delete;
  ~nvml_probe() override {
    if (shutdown_ != nullptr)
      shutdown_();
    if (library_ != nullptr)
      ::dlclose(library_);
  }

  std::string name() const override { return "NVML"; }
  std::string problem() const override { return problem_; }

  void sample(counters& into) override {
    if (!last_.valid || into.monotonic_seconds - read_seconds_ >= slow_signal_seconds) {
      last_ = read();
      read_seconds_ = into.monotonic_seconds;
    }
    into.gpu = last_;
  }

private:
  messages::gpu_statistics read() {
    messages::gpu_statistics seen;
    unsigned answered = 0;
    auto measured = devices_;
    if (std::erase_if(measured, [this](device one) { return !computes_on(one); }); measured.empty())
      measured = devices_;
    for (auto* const one : measured) {
      utilization used;
      memory space;
      unsigned long long reasons = 0;
      if (utilization_(one, &used) != success || memory_(one, &space) != success || space.total == 0)
        continue;
      ++answered;
      seen.utilisation_ratio += std::min(used.gpu, 100U) / 100.0;
      const auto ratio = static_cast<double>(std::min(space.used, space.total)) / static_cast<double>(space.total);
      seen.memory_ratio = std::max(seen.memory_ratio, ratio);
      seen.throttled =
          seen.throttled || (reasons_ != nullptr && reasons_(one, &reasons) == success && (reasons & held_down) != 0);
    }
    if (answered == 0) {
      problem_ = devices_.empty() ? problem_ : "no GPU answers";
      return {};
    }
    seen.valid = true;
    seen.utilisation_ratio /= answered;
    return seen;
  }

  /// Whether the process is known to.
  bool computes_on(device one) const {
    if (process_ == 0 || processes_ == nullptr)
      return false;
    std::array<computing_process, processes_max> running{};
    unsigned count = running.size();
    if (processes_(one, &count, running.data()) != success)
      return false;
    return std::any_of(running.begin(), running.begin() + std::min(count, processes_max),
                       [this](const auto& each) { return each.pid == static_cast<unsigned>(process_); });
  }

  template <class Function>
  bool find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    return function != nullptr;
  }

  int process_; ///< 0: all of the machine's GPUs
  void* library_;
  std::string problem_;
  messages::gpu_statistics last_;
  double read_seconds_ = 0;
  std::vector<device> devices_;
  int (*shutdown_)() = nullptr;
  int (*utilization_)(device, utilization*) = nullptr;
  int (*memory_)(device, memory*) = nullptr;
  int (*reasons_)(device, unsigned long long*) = nullptr;
  int (*processes_)(device, unsigned*, computing_process*) = nullptr;
};

} // namespace

std::unique_ptr<probe> make_nvml_probe(int process) {
  return std::make_unique<nvml_probe>(process);
}

} // namespace dynamix::telemetry
