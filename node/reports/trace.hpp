#pragma once

/// Joins what the hosts of a run have traced with its ledger: one file in Chrome's trace event format, which Perfetto
/// and chrome://tracing open ("Trace Event Format", Google, 2016: objects with ph X, i, C, M, b and e; times in
/// microseconds).

#include "ledger/rows.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dynamix::node {

/// How a host's clock stands to the arbitrator's.
struct clock_offset {
  double seconds = 0;       ///< the host's clock minus the arbitrator's
  double bound_seconds = 0; ///< it is off by no more than that; 0: both read the same clock
  bool known = false;
};

/// When a host handed over its reports and got its decisions, on its own clock.
struct host_moments {
  std::string clock;                                                   ///< telemetry::clock_identity
  std::map<std::pair<std::uint64_t, std::uint64_t>, double> reports;   ///< by generation and window
  std::map<std::pair<std::uint64_t, std::uint64_t>, double> decisions; ///< by term and window
};

/// A report is handed over before its window is decided on, and a decision arrives after it was made: each window
/// bounds the offset from both sides, and the narrowest bounds over all windows hold. Sound whatever the network's
/// delays and however unequal its two ways are; where the clocks drift apart, the bound holds both ends of the drift.
clock_offset offset_of(const host_moments& host, const std::vector<ledger::row>& rows);

struct trace_outcome {
  std::string problem; ///< empty: the file is written
  std::uint64_t events = 0;
  std::uint64_t left_out = 0; ///< steps and collectives for which there was no room
  std::map<std::string, clock_offset> clocks;
};

inline constexpr std::uint64_t trace_bytes_max = 1U << 30;

/// Reads traces/*.jsonl and the ledger below `run`, line by line, and writes `path`.
trace_outcome join_traces(const std::string& run, const std::string& path, std::uint64_t bytes_max = trace_bytes_max);

/// "12,345 events of 5 hosts; all on one clock" and what each host's clock may be off by.
std::string to_text(const trace_outcome& outcome, const std::string& path);

} // namespace dynamix::node
