#pragma once

#include "messages/types.hpp"

#include <memory>
#include <string>
#include <vector>

namespace dynamix::telemetry {

/// Counters of one process since its start; a window's statistics are differences of two of these.
struct counters {
  double monotonic_seconds = 0;
  bool network_valid = false;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t retransmissions = 0;
  double rtt_seconds = 0; ///< a level, not a count: mean over the sockets that have one
  bool system_valid = false;
  double cpu_seconds = 0;            ///< user and system, all threads
  double run_queue_wait_seconds = 0; ///< all threads
  double memory_ratio = 0;           ///< a level: resident set over physical memory
};

/// One source of signals. `sample` fills in its own fields of `into` and leaves the others; it never throws: a signal that
/// cannot be read leaves its valid flag false.
class probe {
public:
  virtual ~probe() = default;
  virtual std::string name() const = 0;
  virtual void sample(counters& into) = 0;
};

/// TCP_INFO of this process's own TCP sockets (found through /proc/self/fd). Needs no privilege.
/// Keeps the counts of sockets that have gone, so that totals never fall.
std::unique_ptr<probe> make_tcp_info_probe();
/// getrusage, /proc/self/task/*/schedstat and /proc/self/statm. Needs no privilege.
std::unique_ptr<probe> make_procfs_probe();
/// Measures nothing; every signal is masked.
std::unique_ptr<probe> make_null_probe();

/// The change between two samples as the statistics of a window. Pure.
messages::network_statistics network_between(const counters& before, const counters& after);
messages::system_statistics system_between(const counters& before, const counters& after);

/// Whether a source works on this machine, and why not.
struct source_status {
  std::string signal; ///< "network", "system"
  std::string source; ///< "TCP_INFO", "procfs", "none"
  bool available = false;
  std::string detail;
};
std::vector<source_status> survey_sources();

} // namespace dynamix::telemetry
