#include "node/launch/child_process.hpp"

#include "storage/beneath.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace dynamix::node {

std::string own_program() {
  std::error_code missing;
  return std::filesystem::read_symlink(own_program_link, missing).string();
}

/// This process's environment with `changes` made, as "NAME=value".
std::vector<std::string> changed_environment(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (std::none_of(changes.begin(), changes.end(),
                     [&](const auto& change) { return text.starts_with(change.first + "="); }))
      result.push_back(text);
  }
  for (const auto& [name, value] : changes)
    result.push_back(name + "=" + value);
  return result;
}

namespace {

/// Runs in the child between fork and exec: only what is async-signal-safe.
[[noreturn]] void become(const char* program, char* const* arguments, char* const* environment, int input, int results,
                         int output, pid_t parent) {
  setpgid(0, 0);
  struct sigaction hang_up {};
  const bool deaf = sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler == SIG_IGN; // as nohup has it
  // What is pending was sent to the parent's group before this process left it, and is the parent's: it is discarded by
  // SIG_IGN. Nothing of its own can have come, since its parent waits for execve.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(signal, SIG_IGN);
    if (signal != SIGHUP || !deaf)
      std::signal(signal, SIG_DFL);
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) // it has gone already
    _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(input, STDIN_FILENO);
  dup2(results, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execve(program, arguments, environment);
  _exit(127);
}

/// Returns the child's id once it is the program, or has ended: whatever is sent to it then is for the program. -1: why
/// not is in errno. No signal is delivered between fork and `become`, to handlers that are the parent's.
template <class Become>
pid_t start_child(Become become) {
  std::array<int, 2> begun{-1, -1}; // closed by execve, and by an end before it
  if (pipe2(begun.data(), O_CLOEXEC) != 0)
    return -1;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t id = fork();
  if (id == 0)
    become();
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(begun[1]);
  char nothing = 0;
  while (id > 0 && read(begun[0], &nothing, 1) < 0 && errno == EINTR) {
  }
  close(begun[0]);
  errno = error;
  return id;
}

} // namespace

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string to_string(const child_exit& ended) {
  if (ended.by_signal)
    return fmt::format("signal {}, {}", ended.number, strsignal(ended.number));
  return fmt::format("exit code {}", ended.number);
}

child_process::child_process(child_process&& other) noexcept
    : id_(std::exchange(other.id_, -1)), told_(std::exchange(other.told_, -1)), untold_(std::move(other.untold_)),
      ended_(std::exchange(other.ended_, std::nullopt)) {}

child_process& child_process::operator=(child_process&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(told_, other.told_);
  std::swap(untold_, other.untold_);
  std::swap(ended_, other.ended_);
  return *this;
}

child_process::~child_process() {
  if (told_ >= 0)
    close(told_);
  if (!running())
    return;
  kill(id_, SIGKILL);
  int status = 0;
  while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
}

int child_process::open_input(const std::string& told) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return -1;
  // A child that reads nothing must not hold this one up, and pipes that hold all of it for hundreds of children are
  // more than a user without privileges may have (pipe-user-pages-soft).
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  told_ = ends[1];
  untold_ = told;
  tell();
  return ends[0];
}

void child_process::tell() {
  while (told_ >= 0 && !untold_.empty()) {
    const auto written = write(told_, untold_.data(), untold_.size());
    if (written > 0)
      untold_.erase(0, static_cast<std::size_t>(written));
    else if (errno == EAGAIN)
      return;
    else if (errno != EINTR)
      untold_.clear(); // nobody reads it any more
  }
}

std::string child_process::start(const child_options& options) {
  *this = child_process(); // nothing is left of one before
  const auto failed = [](const std::string& what) { return what + ": " + std::strerror(errno); };
  const int input = options.told         ? open_input(*options.told)
                    : options.input >= 0 ? fcntl(options.input, F_DUPFD_CLOEXEC, 0)
                                         : open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::string problem = input < 0 ? failed("cannot open its standard input") : "";
  const auto append_to = [&](const std::string& path) {
    // This process's own, or a file whose place may have been taken by a link that somebody planted in a resumed run.
    const int descriptor = path.starts_with("/proc/self/fd/") ? open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)
                                                              : storage::open_to_append_beneath(path);
    if (descriptor < 0 && problem.empty())
      problem = failed("cannot open " + path);
    return descriptor;
  };
  const int output = append_to(options.output);
  const int results = append_to(options.results.empty() ? options.output : options.results);
  if (problem.empty()) {
    std::vector<std::string> arguments = options.arguments;
    arguments.insert(arguments.begin(), options.program);
    auto environment = changed_environment(options.environment);
    const auto argument_pointers = pointers_to(arguments);
    const auto environment_pointers = pointers_to(environment);
    const pid_t parent = getpid();
    id_ = start_child([&] {
      become(options.program.c_str(), argument_pointers.data(), environment_pointers.data(), input, results, output,
             parent);
    });
    if (id_ < 0)
      problem = failed("cannot start " + options.program);
  }
  for (const int descriptor : {input, results, output})
    if (descriptor >= 0)
      close(descriptor);
  return problem;
}

std::optional<child_exit> child_process::poll() {
  if (!ended_)
    tell();
  int status = 0;
  if (id_ > 0 && !ended_ && waitpid(id_, &status, WNOHANG) == id_)
    ended_ = WIFSIGNALED(status) ? child_exit{true, WTERMSIG(status)} : child_exit{false, WEXITSTATUS(status)};
  return ended_;
}

void child_process::kill_group() {
  if (running())
    kill(-id_, SIGKILL);
}

void child_process::signal(int number) {
  if (!running())
    return;
  if (told_ < 0)
    return void(kill(id_, number));
  untold_ += std::string(sigabbrev_np(number)) + "\n";
  tell();
  if (number != SIGKILL)
    return;
  close(std::exchange(told_, -1));
  if (!untold_.empty()) // it has not read yet what it is to begin with
    kill(id_, SIGKILL);
}

} // namespace dynamix::node
