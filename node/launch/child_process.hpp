#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace dynamix::node {

/// The file of this very program, from which its children are started; empty where it cannot be known.
std::string own_program();
inline constexpr auto own_program_link = "/proc/self/exe";
/// For a person: why `own_program` is empty.
inline constexpr auto own_program_missing =
    "not there, and hosts on this machine are started from it; /proc must be mounted: mount -t proc proc /proc";

/// This process's environment with `changes` made: "NAME=value".
std::vector<std::string> changed_environment(const std::vector<std::pair<std::string, std::string>>& changes);

struct child_options {
  std::string program;                                          ///< a path
  std::vector<std::string> arguments;                           ///< without the program's name
  std::vector<std::pair<std::string, std::string>> environment; ///< in place of, or beside, this process's own
  std::string output;                                           ///< file that standard output and error are appended to
  int input = -1; ///< descriptor that becomes its standard input; -1: nothing to read
};

/// How a process ended.
struct child_exit {
  bool by_signal = false;
  int number = 0; ///< the exit code or the signal

  bool well() const { return !by_signal && number == 0; }
};
/// "exit code 1", "signal 9, Killed"
std::string to_string(const child_exit& ended);

/// One process that this one has started. It is in a process group of its own, so that Ctrl-C at a terminal reaches it
/// only through `signal`, and gets SIGTERM when the thread that started it ends. The destructor kills it and waits for
/// it.
class child_process {
public:
  child_process() = default;
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&& other) noexcept;
  ~child_process();

  /// Returns an empty string, or why the process could not be started. A program that cannot be executed ends with 127.
  std::string start(const child_options& options);
  pid_t id() const { return id_; }
  bool running() { return id_ > 0 && !poll(); }
  /// How it ended; nothing while it runs.
  std::optional<child_exit> poll();
  /// Does nothing once it has ended.
  void signal(int number);

private:
  pid_t id_ = -1;
  std::optional<child_exit> ended_;
};

} // namespace dynamix::node
