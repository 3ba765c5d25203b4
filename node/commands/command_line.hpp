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
  /// Of `run`, as shells tell of Ctrl-C: a stop came before there was anything to train, or between two generations.
  exit_stopped = 130,
};

/// `dynamix-node` with these arguments, without the program's name. Writes results to `out`, errors to `err`.
int run_command_line(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

} // namespace dynamix::node
