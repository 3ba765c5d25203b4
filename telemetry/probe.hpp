#pragma once

#include "messages/types.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::telemetry {

/// Counters of one process since its start; a window's statistics are differences of two of these.
struct counters {
  double monotonic_seconds = 0;
  bool network_valid = false;
  std::uint64_t bytes_sent = 0; ///< and acknowledged, so that a repeated segment counts once
  std::uint64_t bytes_received = 0;
  std::uint64_t retransmissions = 0; ///< segments
  double rtt_seconds = 0;            ///< a level, not a count: mean of the open sockets that have one
  bool system_valid = false;
  double cpu_seconds = 0;            ///< user and system, all threads
  double run_queue_wait_seconds = 0; ///< all threads
  double memory_ratio = 0;           ///< a level: resident set over physical memory
};

/// One source of signals. `sample` fills in its own fields of `into` and leaves the others; it never throws: a signal
/// that cannot be read leaves its valid flag false. Not thread-safe: one probe is sampled by one thread at a time.
class probe {
public:
  virtual ~probe() = default;
  virtual std::string name() const = 0;
  virtual void sample(counters& into) = 0;
};

/// TCP_INFO of this process's own TCP sockets (found through /proc/self/fd, the first 4096 descriptors). Needs no
/// privilege. Keeps the counts of sockets that have gone, so that totals never fall; what a socket moves between the
/// last sample and its close is not seen. A connection of the process to itself counts at both of its ends.
std::unique_ptr<probe> make_tcp_info_probe();
/// getrusage, /proc/self/task/*/schedstat (the first 4096 threads) and /proc/self/statm. Needs no privilege.
/// Keeps the waits of threads that have ended; what a thread waits between the last sample and its end is not seen.
std::unique_ptr<probe> make_procfs_probe();
/// Measures nothing; every signal is masked.
std::unique_ptr<probe> make_null_probe();

/// Reads the monotonic clock and every probe, in order.
counters take_sample(const std::vector<std::unique_ptr<probe>>& probes);

/// The change between two samples as the statistics of a window. Pure. Not valid where a sample is not, or where the
/// window has no length; a count that falls counts as no change, so nothing here is ever negative.
messages::network_statistics network_between(const counters& before, const counters& after);
messages::system_statistics system_between(const counters& before, const counters& after);

/// Whether a source works on this machine, and why not.
struct source_status {
  std::string signal; ///< "network", "system"
  std::string source; ///< "TCP_INFO", "procfs"
  bool available = false;
  std::string detail; ///< what is measured, or what is missing
};
/// Tries every source once, on a socket of its own where it needs one.
std::vector<source_status> survey_sources();

} // namespace dynamix::telemetry
