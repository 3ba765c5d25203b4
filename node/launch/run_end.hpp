#pragma once

/// The statuses by which a shell is told how training has ended: 0 means that what was asked for was done. What ends
/// otherwise than by training decides its own: `exec` has its command's, `faults` and `swarm` have a verdict's.

#include "node/commands/command_line.hpp"

namespace dynamix::node {

/// Of a whole run: `local`, `launch`, and each of `compare`'s. `succeeded`: nothing has failed; `completed`: training
/// came to its end, or to one that was asked for beforehand.
exit_code exit_of_run(bool succeeded, bool completed);

/// Of one host's part.
struct part_end {
  bool succeeded = false; ///< nothing has failed
  bool completed = false; ///< training came to its end
  bool stopped = false;   ///< before that, in order or, not succeeded, before there was anything to end so
  bool left = false;      ///< as it was asked to, and the others go on
  bool asked = false;     ///< this process has got the signal that stopped training
};
/// Of `run`. Who starts hosts again needs to know more: what a restart is no help for.
exit_code exit_of_host(const part_end& end);

} // namespace dynamix::node
