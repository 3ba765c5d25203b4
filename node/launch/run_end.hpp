#pragma once

/// How what a command was asked for has ended, and the status by which its shell is told. This is decided here alone:
/// 0 means that what was asked for was done.

#include "node/commands/command_line.hpp"

namespace dynamix::node {

struct run_end {
  bool succeeded = false; ///< nothing has failed
  bool completed = false; ///< training came to its end, or to one that was asked for beforehand
  bool stopped = false;   ///< before that, in order or, not succeeded, before there was anything to end so
  bool left = false;      ///< one host, as it was asked to, and the others go on
  bool asked = false;     ///< this process has got the signal that stopped training
};

/// Of a whole run: `local`, `launch`, and each of `compare`'s.
exit_code exit_of_run(const run_end& end);

/// Of one host's part: `run`. Who starts hosts again needs to know more: what a restart is no help for.
exit_code exit_of_host(const run_end& end);

} // namespace dynamix::node
