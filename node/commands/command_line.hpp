#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace dynamix::node {

/// What every command returns to the shell.
enum exit_code : int {
  exit_done = 0,
  exit_failed = 1,  ///< the run failed, or was stopped before its end
  exit_refused = 2, ///< wrong arguments or cluster file; nothing was begun
  /// Of `run`: training ended before its end, in order, and nobody has asked this process for it (a gradient that is
  /// not finite, a stop at another host); a restart by itself would come to the same.
  exit_unfinished = 3,
  /// Of `run`, as shells tell of Ctrl-C: a signal stopped its training, or a stop came before there was any.
  exit_stopped = 130,
};

/// `dynamix-node` with these arguments, without the program's name. Writes results to `out`, errors to `err`.
int run_command_line(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

} // namespace dynamix::node
