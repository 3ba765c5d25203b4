#pragma once

#include "node/launch/child_process.hpp"

#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace dynamix::node {

/// A command of the user's that runs in the foreground: with this process's terminal, process group, standard input and
/// output. While it runs, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1 and SIGUSR2 that somebody sends to this process are
/// passed on to it; what a terminal sends reaches it by itself. Before and afterwards they ask this process to stop.
/// One at a time in a process.
class command_process {
public:
  command_process();
  ~command_process(); ///< from here on the signals do again what they did before; the command is not ended
  command_process(const command_process&) = delete;
  command_process& operator=(const command_process&) = delete;

  /// `command` is a program, looked for in PATH, and its arguments. `group`: a directory of cgroup version 2 that the
  /// command is to begin in; empty: the present one. Returns an empty string, or why it cannot be started.
  std::string start(const std::vector<std::string>& command,
                    const std::vector<std::pair<std::string, std::string>>& environment, const std::string& group = "");
  bool started() const { return id_ > 0; }
  /// How it ended; nothing while it runs.
  std::optional<child_exit> poll();
  /// The same, once it has ended.
  child_exit wait();
  void signal(int number) const;
  /// How many of the signals that end a process have come while there was no command.
  static int asked_to_stop();
  /// The newest signal that came then; 0: none.
  static int asked_by();

private:
  pid_t id_ = -1;
  std::optional<child_exit> ended_;
};

/// Why this program cannot be started, as far as can be seen before it is tried; empty: it may. Looked for in PATH.
std::string why_not_startable(const std::string& program);

/// This process becomes the command, with that environment. Returns why it cannot.
std::string become_command(const std::vector<std::string>& command,
                           const std::vector<std::pair<std::string, std::string>>& environment);

} // namespace dynamix::node
