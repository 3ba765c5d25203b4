#pragma once

#include "node/launch/run_directory.hpp"

#include <iosfwd>
#include <string>

namespace dynamix::node {

/// The newest whole checkpoint of a run, as `path`. Writes a warning of each newer one that cannot be read. Returns
/// exit_done; or, after the reason has been written, exit_refused when there is none and exit_failed when none is
/// whole.
int find_resume_point(const run_directory& run, std::ostream& err, std::string& path);

/// The same for one host that goes on in the middle of a run, which may not have written a checkpoint yet: `path` is
/// then empty and exit_done is returned. The run's directory must exist.
int find_host_resume_point(const run_directory& run, std::ostream& err, std::string& path);

} // namespace dynamix::node
