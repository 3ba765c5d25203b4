#pragma once

#include "node/child_process.hpp"
#include "node/launcher.hpp"

namespace dynamix::node {

/// The process of a host: `dynamix-node run` with the run's flags, behind the host's `command_prefix` where it has one.
child_options describe_process(const launch_options& options, const cluster::host& host, bool resumed);

} // namespace dynamix::node
