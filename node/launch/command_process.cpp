#include "node/launch/command_process.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <ranges>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace dynamix::node {
namespace {

constexpr std::array passed_on = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

std::atomic<pid_t> signal_receiver = 0; ///< 0: nobody yet
std::atomic<int> early_signal = 0;      ///< came before the command was started
std::atomic<int> stops_asked = 0;       ///< while nobody was there to ask
std::atomic<int> stop_asked_by = 0;
std::atomic<bool> leads_session = false; ///< of a terminal: nothing stands between them, as under `ssh -t`
static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a signal handler may touch nothing else");

std::array<struct sigaction, passed_on.size()> actions_before;

void pass_on(int number, siginfo_t* about, void*) {
  const pid_t id = signal_receiver.load();
  // A terminal sends it to the whole process group, but tells only the leader of its session that it is gone.
  const bool to_all = about->si_code == SI_KERNEL && !(number == SIGHUP && leads_session.load());
  if (id <= 0) {
    early_signal = number;
    if (number == SIGUSR1 || number == SIGUSR2)
      return;
    ++stops_asked;
    stop_asked_by = number;
  } else if (!to_all)
    kill(id, number);
}

sigset_t passed_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : passed_on)
    sigaddset(&set, number);
  return set;
}

/// Runs in the child between fork and exec: only what is async-signal-safe. Writes errno where it cannot become the
/// command.
[[noreturn]] void become(char* const* arguments, char* const* environment, int group, const sigset_t& mask, int told) {
  for (std::size_t i = 0; i < passed_on.size(); ++i)
    sigaction(passed_on[i], &actions_before[i], nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  if (group >= 0 && write(group, "0", 1) != 1) {
    // It begins where this process is.
  }
  execvpe(arguments[0], arguments, environment);
  const int error = errno;
  if (write(told, &error, sizeof(error)) < 0)
    _exit(126);
  _exit(127);
}

child_exit to_exit(int status) {
  return WIFSIGNALED(status) ? child_exit{true, WTERMSIG(status)} : child_exit{false, WEXITSTATUS(status)};
}

} // namespace

command_process::command_process() {
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  signal_receiver = 0;
  early_signal = 0;
  stops_asked = 0;
  stop_asked_by = 0;
  leads_session = getsid(0) == getpid();
  for (std::size_t i = 0; i < passed_on.size(); ++i) {
    sigaction(passed_on[i], nullptr, &actions_before[i]);
    if (actions_before[i].sa_handler != SIG_IGN) // as nohup wants it
      sigaction(passed_on[i], &action, nullptr);
  }
}

command_process::~command_process() {
  signal_receiver = 0;
  for (std::size_t i = 0; i < passed_on.size(); ++i)
    sigaction(passed_on[i], &actions_before[i], nullptr);
}

std::string command_process::start(const std::vector<std::string>& command,
                                   const std::vector<std::pair<std::string, std::string>>& environment,
                                   const std::string& group) {
  auto texts = command;
  const auto arguments = pointers_to(texts);
  auto variables = changed_environment(environment);
  const auto variable_pointers = pointers_to(variables);
  const int procs = group.empty() ? -1 : open((group + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
  std::array<int, 2> pipe{-1, -1};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0)
    return fmt::format("cannot start {}: {}", command.front(), std::strerror(errno));
  // Held back until there is somebody to pass them on to.
  const sigset_t set = passed_set();
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, &set, &mask);
  id_ = fork();
  if (id_ == 0)
    become(arguments.data(), variable_pointers.data(), procs, mask, pipe[1]);
  int error = id_ < 0 ? errno : 0;
  signal_receiver = id_ > 0 ? id_ : 0;
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  close(pipe[1]);
  if (procs >= 0)
    close(procs);
  if (id_ > 0 && read(pipe[0], &error, sizeof(error)) != sizeof(error))
    error = 0;
  close(pipe[0]);
  if (error == 0) {
    stops_asked = 0; // it is the command's from now on
    stop_asked_by = 0;
    if (const int number = early_signal.exchange(0); number != 0)
      signal(number);
    return "";
  }
  if (id_ > 0)
    wait();
  signal_receiver = 0;
  id_ = -1;
  return fmt::format("cannot start {}: {}", command.front(), std::strerror(error));
}

std::optional<child_exit> command_process::poll() {
  int status = 0;
  if (id_ > 0 && !ended_ && waitpid(id_, &status, WNOHANG) == id_) {
    signal_receiver = 0;
    ended_ = to_exit(status);
  }
  return ended_;
}

child_exit command_process::wait() {
  int status = 0;
  while (!ended_) {
    const auto id = waitpid(id_, &status, 0);
    if (id == id_)
      ended_ = to_exit(status);
    else if (errno != EINTR)
      ended_ = child_exit{false, 127};
  }
  signal_receiver = 0;
  return *ended_;
}

std::string why_not_startable(const std::string& program) {
  if (program.find('/') != std::string::npos)
    return access(program.c_str(), X_OK) == 0 ? "" : fmt::format("cannot start {}: {}", program, std::strerror(errno));
  const char* path = std::getenv("PATH");
  if (path == nullptr) // the system's own
    return "";
  for (const auto part : std::views::split(std::string_view(path), ':')) {
    const std::string directory(part.begin(), part.end());
    if (access((directory.empty() ? program : directory + "/" + program).c_str(), X_OK) == 0)
      return "";
  }
  return fmt::format("cannot start {}: no directory of $PATH has a program of this name", program);
}

std::string become_command(const std::vector<std::string>& command,
                           const std::vector<std::pair<std::string, std::string>>& environment) {
  auto texts = command;
  auto variables = changed_environment(environment);
  execvpe(command.front().c_str(), pointers_to(texts).data(), pointers_to(variables).data());
  return fmt::format("cannot start {}: {}", command.front(), std::strerror(errno));
}

int command_process::asked_to_stop() {
  return stops_asked;
}

int command_process::asked_by() {
  return stop_asked_by;
}

void command_process::signal(int number) const {
  if (id_ > 0 && !ended_)
    kill(id_, number);
}

} // namespace dynamix::node
