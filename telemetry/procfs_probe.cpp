#include "telemetry/numbered_entries.hpp"
#include "telemetry/probe.hpp"
#include "telemetry/small_file.hpp"
#include "telemetry/training_thread.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dynamix::telemetry {

namespace {

constexpr std::size_t threads_max = 512; ///< each takes a descriptor

double to_seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// Of this process.
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

/// The files of a process below /proc; 0: this one.
std::string directory_of(int process) {
  return process == 0 ? "/proc/self" : fmt::format("/proc/{}", process);
}

/// Of /proc/PID/stat: from the parent's number, the fourth field, to the system time, the fifteenth. The second is the
/// program's name in brackets, and may hold anything.
using stat_fields = std::array<std::uint64_t, 12>;

bool read_fields(const kept_file& stat, stat_fields& fields) {
  char text[4096];
  if (!stat.read_start(text, sizeof(text)))
    return false;
  const char* begin = std::strrchr(text, ')');
  if (begin == nullptr || std::strlen(begin) < 4)
    return false;
  begin += 3; // to behind the state
  for (auto& field : fields) {
    begin += std::strspn(begin, " ");
    const bool negative = *begin == '-'; // of a terminal that is none
    begin += negative ? 1 : 0;
    if (!take_number(begin, field))
      return false;
  }
  return true;
}

double cpu_seconds_of(const stat_fields& fields) {
  return static_cast<double>(fields[10] + fields[11]) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// /proc/PID/status has the involuntary switches, of the main thread.
bool read_usage(const kept_file& stat, const kept_file& status, counters& into) {
  stat_fields fields{};
  if (!read_fields(stat, fields))
    return false;
  into.page_faults = fields[6] + fields[8];
  into.major_page_faults = fields[8];
  into.cpu_seconds = cpu_seconds_of(fields);
  char text[4096];
  if (status.read_start(text, sizeof(text)))
    find_number(text, "nonvoluntary_ctxt_switches:", into.involuntary_switches);
  return true;
}

/// What another process has started, and what that has: the workers of its data loaders. The kernel lists the children
/// of each thread (CONFIG_PROC_CHILDREN); those of main threads are looked at.
class child_processes {
public:
  explicit child_processes(int of) : of_(of) {}

  /// CPU time of all that were seen so far.
  double cpu_seconds(double now_seconds) {
    if (!listed_ || now_seconds - listed_seconds_ >= slow_signal_seconds) {
      listed_ = true;
      listed_seconds_ = now_seconds;
      list();
    }
    std::erase_if(children_, [this](child& each) {
      stat_fields fields{};
      if (!read_fields(each.stat, fields))
        return true;
      const auto seconds = cpu_seconds_of(fields);
      seconds_ += seconds - std::exchange(each.seconds, seconds);
      return false;
    });
    return seconds_;
  }

private:
  struct child {
    int number = 0;
    kept_file stat;
    double seconds = 0; ///< when it was last seen
  };
  static constexpr std::size_t children_max = 256; ///< each takes a descriptor
  static constexpr int depth_max = 4;

  /// Adds the children of `parent`, and theirs. An agent that a training process has started is not part of its
  /// training, nor is what was started with it: false where this process is among them.
  static bool find(int parent, int depth, std::vector<int>& found) {
    char text[4096];
    const auto path = fmt::format("/proc/{0}/task/{0}/children", parent);
    if (depth == depth_max || !read_start(AT_FDCWD, path.c_str(), text, sizeof(text)))
      return true;
    const char* next = text;
    for (std::uint64_t number = 0; found.size() < children_max && take_number(next, number);) {
      const auto before = found.size();
      found.push_back(static_cast<int>(number));
      if (found.back() != ::getpid() && find(found.back(), depth + 1, found))
        continue;
      found.resize(before);
      if (depth > 0)
        return false;
    }
    return true;
  }

  void list() {
    std::vector<int> found;
    find(of_, 0, found);
    // One that is not among them may live all the same: the kernel's list leaves some out while others end, and does
    // not have those whose parent has ended. Taken away and added again, it would count twice.
    for (const int number : found)
      if (children_.size() < children_max && std::ranges::find(children_, number, &child::number) == children_.end())
        children_.push_back(
            {.number = number, .stat = {AT_FDCWD, (directory_of(number) + "/stat").c_str()}, .seconds = 0});
  }

  int of_;
  bool listed_ = false;
  double listed_seconds_ = 0;
  double seconds_ = 0;
  std::vector<child> children_;
};

/// /proc/PID/statm: size resident shared ..., in pages.
bool read_memory_ratio(const kept_file& statm, double& ratio) {
  char text[256];
  const char* begin = text;
  std::uint64_t pages = 0;
  struct sysinfo machine {};
  if (!statm.read_start(text, sizeof(text)) || !take_number(begin, pages) || !take_number(begin, pages) ||
      sysinfo(&machine) != 0 || machine.totalram == 0)
    return false;
  const double total_bytes = static_cast<double>(machine.totalram) * machine.mem_unit;
  ratio = static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / total_bytes;
  return true;
}

class usage_probe : public probe {
public:
  explicit usage_probe(int process)
      : process_(process), children_(process), statm_(AT_FDCWD, (directory_of(process) + "/statm").c_str()) {
    if (process == 0)
      return;
    stat_ = kept_file(AT_FDCWD, (directory_of(process) + "/stat").c_str());
    status_ = kept_file(AT_FDCWD, (directory_of(process) + "/status").c_str());
  }

  std::string name() const override { return "procfs"; }
  std::string problem() const override { return "procfs needs /proc/self/statm"; }

  void sample(counters& into) override {
    into.system_source = messages::signal_source::unprivileged;
    if (!memory_known_ || into.monotonic_seconds - memory_seconds_ >= slow_signal_seconds) {
      memory_known_ = read_memory_ratio(statm_, memory_ratio_);
      memory_seconds_ = into.monotonic_seconds;
    }
    into.memory_ratio = memory_ratio_;
    into.system_valid = (process_ == 0 ? read_usage(into) : read_usage(stat_, status_, into)) && memory_known_;
    if (process_ != 0)
      into.cpu_seconds += children_.cpu_seconds(into.monotonic_seconds);
  }

protected:
  int process() const { return process_; }

private:
  int process_; ///< 0: this one
  child_processes children_;
  bool memory_known_ = false;
  double memory_ratio_ = 0;
  double memory_seconds_ = 0; ///< when it was read
  kept_file statm_;
  kept_file stat_;
  kept_file status_;
};

class procfs_probe final : public usage_probe {
public:
  explicit procfs_probe(int process)
      : usage_probe(process), tasks_(directory_of(process) + "/task"), task_(AT_FDCWD, tasks_.c_str()) {}

  std::string problem() const override {
    return "procfs needs /proc/self/statm and /proc/self/task/*/schedstat (a kernel with CONFIG_SCHED_INFO)";
  }

  void sample(counters& into) override {
    usage_probe::sample(into);
    training_ = process() == 0 ? training_thread.load(std::memory_order_relaxed) : process(); // its main thread
    into.system_valid = count_run_queue_waits(into) && into.system_valid;
    into.run_queue_wait_seconds = 1e-9 * static_cast<double>(wait_ns_);
  }

private:
  struct watched_thread {
    int number = 0;
    kept_file schedstat;
    std::uint64_t wait_ns = 0; ///< when it was last seen
  };

  /// Adds what each thread waited since it was last seen. False when no thread can be read: a kernel without schedstat.
  bool count_run_queue_waits(counters& into) {
    const auto ended = std::erase_if(threads_, [&](auto& thread) { return !count(thread, into); });
    // Listing them costs more than all the rest, and is needed only where one has come.
    if (ended > 0 || threads_.size() != present_threads())
      for_each_numbered_entry(tasks_.c_str(), [&](int number, int directory) {
        if (threads_.size() == threads_max ||
            std::ranges::find(threads_, number, &watched_thread::number) != threads_.end())
          return;
        char path[32];
        std::snprintf(path, sizeof(path), "%d/schedstat", number);
        watched_thread come{.number = number, .schedstat = {directory, path}};
        if (count(come, into))
          threads_.push_back(std::move(come));
      });
    return !threads_.empty();
  }

  /// False for a thread that has ended.
  bool count(watched_thread& thread, counters& into) {
    char text[128];
    const char* begin = text;
    std::uint64_t cpu_ns = 0;
    std::uint64_t wait_ns = 0;
    // The line is "nanoseconds-running nanoseconds-waiting timeslices".
    if (!thread.schedstat.read_start(text, sizeof(text)) || !take_number(begin, cpu_ns) || !take_number(begin, wait_ns))
      return false;
    if (thread.number == training_) {
      into.training_thread = thread.number;
      into.training_cpu_seconds = 1e-9 * static_cast<double>(cpu_ns);
      into.training_wait_seconds = 1e-9 * static_cast<double>(wait_ns);
    }
    wait_ns_ += wait_ns - std::exchange(thread.wait_ns, wait_ns);
    return true;
  }

  std::size_t present_threads() const {
    struct stat status {};
    // A directory's links: from its parent, from itself, and from each directory in it.
    return fstat(task_.descriptor(), &status) == 0 ? std::min<std::size_t>(status.st_nlink - 2, threads_max) : 0;
  }

  std::string tasks_;
  std::vector<watched_thread> threads_;
  kept_file task_;
  std::uint64_t wait_ns_ = 0;
  int training_ = 0;
};

} // namespace

std::unique_ptr<probe> make_procfs_probe(int process) {
  return std::make_unique<procfs_probe>(process);
}

std::unique_ptr<probe> make_usage_probe(int process) {
  return std::make_unique<usage_probe>(process);
}

} // namespace dynamix::telemetry
