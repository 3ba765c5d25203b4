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

/// To the texts, and a null pointer behind them, as exec takes them.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

struct child_options {
  std::string program;                                          ///< a path
  std::vector<std::string> arguments;                           ///< without the program's name
  std::vector<std::pair<std::string, std::string>> environment; ///< in place of, or beside, this process's own
  std::string output;                                           ///< file that standard error and output are appended to
  int input = -1;           ///< descriptor that becomes its standard input; -1: nothing to read
  std::string results = {}; ///< file that standard output alone is appended to; empty: `output` takes it too
  /// In place of `input`: what it reads first. Its standard input stays open then, and signals are written to it, a
  /// name without SIG a line, for a process that passes them on; behind KILL it ends, and what is sent afterwards is
  /// for the process itself. What its pipe does not take at once goes on with each `poll`.
  std::optional<std::string> told = {};
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

  /// Ends the one that was started before. Returns an empty string, or why the process could not be started. A program
  /// that cannot be executed ends with 127.
  std::string start(const child_options& options);
  pid_t id() const { return id_; }
  bool running() { return id_ > 0 && !poll(); }
  /// How it ended; nothing while it runs.
  std::optional<child_exit> poll();
  /// Does nothing once it has ended.
  void signal(int number);
  /// SIGKILL, also to what it has started, unless that is in a group of its own. Does nothing once it has ended.
  void kill_group();

private:
  /// A pipe for `told`, whose other end is kept. Returns its end for the child; -1: errno says why not.
  int open_input(const std::string& told);
  /// As much as the pipe takes now.
  void tell();

  pid_t id_ = -1;
  int told_ = -1;      ///< where it reads its signals; -1: they are sent
  std::string untold_; ///< what the pipe had no room for yet
  std::optional<child_exit> ended_;
};

} // namespace dynamix::node
