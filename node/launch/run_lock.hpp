#pragma once

/// Who runs in a run directory: one process for the whole, and one for each host. Two that resumed one run each wrote
/// its record, which was neither's then.

#include "node/launch/run_directory.hpp"

#include <chrono>
#include <stop_token>
#include <string>

namespace dynamix::node {

/// Kept by this process until `unlock_run` or its end, however it comes; again at no cost. `host`: empty for the whole
/// run. Waits `patience` for a process that is about to end. Returns an empty string, or who has it; nothing is locked
/// where the file system has no locks. The directory exists.
std::string lock_run(const run_directory& run, const std::string& host = "", std::chrono::milliseconds patience = {},
                     const std::stop_token& stop = {});

/// Of the whole run. For whoever makes many, or removes the directory.
void unlock_run(const run_directory& run);

/// Whether some process runs the run, or a host in it, on this machine.
bool is_running(const run_directory& run);

} // namespace dynamix::node
