#include "telemetry/numbered_entries.hpp"
#include "telemetry/probe.hpp"
#include "telemetry/small_file.hpp"
#include "telemetry/training_thread.hpp"

#include <cinttypes>
#include <cstdio>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include <unordered_map>

namespace dynamix::telemetry {

namespace {

double to_seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

bool read_usage(counters& into) {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0)
    return false;
  into.cpu_seconds = to_seconds(usage.ru_utime) + to_seconds(usage.ru_stime);
  into.involuntary_switches = static_cast<std::uint64_t>(usage.ru_nivcsw);
  into.page_faults = static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt);
  into.major_page_faults = static_cast<std::uint64_t>(usage.ru_majflt);
  return true;
}

/// /proc/self/statm: size resident shared ..., in pages.
bool read_memory_ratio(double& ratio) {
  char text[256];
  std::uint64_t resident_pages = 0;
  struct sysinfo machine {};
  if (!read_start(AT_FDCWD, "/proc/self/statm", text, sizeof(text)) ||
      std::sscanf(text, "%*u %" SCNu64, &resident_pages) != 1 || sysinfo(&machine) != 0 || machine.totalram == 0)
    return false;
  const double total_bytes = static_cast<double>(machine.totalram) * machine.mem_unit;
  ratio = static_cast<double>(resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / total_bytes;
  return true;
}

class procfs_probe final : public probe {
public:
  std::string name() const override { return "procfs"; }
  std::string problem() const override {
    return "procfs needs /proc/self/statm and /proc/self/task/*/schedstat (a kernel with CONFIG_SCHED_INFO)";
  }

  void sample(counters& into) override {
    training_ = training_thread.load(std::memory_order_relaxed);
    into.system_source = messages::signal_source::unprivileged;
    into.system_valid = read_usage(into) && read_memory_ratio(into.memory_ratio) && count_run_queue_waits(into);
    into.run_queue_wait_seconds = 1e-9 * static_cast<double>(wait_ns_);
  }

private:
  struct seen_thread {
    std::uint64_t wait_ns = 0;
    std::uint64_t sample = 0;
  };

  /// Adds what each thread waited since it was last seen. False when no thread could be read: a kernel without
  /// schedstat.
  bool count_run_queue_waits(counters& into) {
    ++sample_;
    for_each_numbered_entry("/proc/self/task", [this, &into](int thread, int directory) {
      char path[32];
      char text[128];
      std::uint64_t cpu_ns = 0;
      std::uint64_t wait_ns = 0;
      std::snprintf(path, sizeof(path), "%d/schedstat", thread);
      // The line is "nanoseconds-running nanoseconds-waiting timeslices". A thread that has just ended cannot be read.
      if (!read_start(directory, path, text, sizeof(text)) ||
          std::sscanf(text, "%" SCNu64 " %" SCNu64, &cpu_ns, &wait_ns) != 2)
        return;
      if (thread == training_) {
        into.training_thread = thread;
        into.training_cpu_seconds = 1e-9 * static_cast<double>(cpu_ns);
        into.training_wait_seconds = 1e-9 * static_cast<double>(wait_ns);
      }
      seen_thread& seen = threads_[thread];
      // A lower count is another thread under a number that was used before.
      wait_ns_ += wait_ns >= seen.wait_ns ? wait_ns - seen.wait_ns : wait_ns;
      seen = {wait_ns, sample_};
    });
    std::erase_if(threads_, [this](const auto& entry) { return entry.second.sample != sample_; });
    return !threads_.empty();
  }

  std::unordered_map<int, seen_thread> threads_; // by thread id; those of the last sample
  std::uint64_t sample_ = 0;
  std::uint64_t wait_ns_ = 0;
  int training_ = 0;
};

} // namespace

std::unique_ptr<probe> make_procfs_probe() {
  return std::make_unique<procfs_probe>();
}

} // namespace dynamix::telemetry
