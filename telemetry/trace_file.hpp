#pragma once

/// What one host's process did and when, on its own monotonic clock: a JSON object per line, which
/// `dynamix-node trace` joins with the other hosts' and the ledger (node/reports/trace.hpp).

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

namespace dynamix::telemetry {

/// Says which processes share one monotonic clock: the kernel's boot and the time namespace. Empty where it cannot be
/// told.
std::string clock_identity();

/// Lines of events; times are seconds of CLOCK_MONOTONIC (std::chrono::steady_clock). A file that is full takes no more
/// but one line that says so. Thread-safe; a write that fails ends the trace and nothing else.
class trace_file {
public:
  static constexpr std::uint64_t default_bytes_max = 64U << 20;

  /// Appends to `path` (a restarted process goes on behind what there is). Null, with `problem`, where it cannot.
  static std::shared_ptr<trace_file> open(const std::string& path, const std::string& host, std::string& problem,
                                          std::uint64_t bytes_max = default_bytes_max);
  ~trace_file();
  trace_file(const trace_file&) = delete;
  trace_file& operator=(const trace_file&) = delete;

  /// `lane`: window, step or collective. `arguments`: members of a JSON object, "\"batch\":64".
  void span(const char* lane, const std::string& name, double begin_seconds, double end_seconds,
            const std::string& arguments = {});
  /// A moment, now. `kind`: report, decision; `term` and `window` name it.
  void moment(const char* kind, std::uint64_t term, std::uint64_t window);
  /// What was written reaches the file.
  void flush();

private:
  trace_file(std::FILE* file, std::uint64_t bytes, std::uint64_t bytes_max)
      : file_(file), bytes_(bytes), bytes_max_(bytes_max) {}
  void write(const std::string& line);

  std::mutex mutex_;
  std::FILE* file_;
  std::uint64_t bytes_;
  std::uint64_t bytes_max_;
  bool full_ = false;
};

} // namespace dynamix::telemetry
