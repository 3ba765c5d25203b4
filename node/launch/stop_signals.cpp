#include "node/launch/stop_signals.hpp"

#include "node/commands/command_line.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <unistd.h>

namespace dynamix::node {
namespace {

constexpr timespec look_interval = {0, 100'000'000};
constexpr std::int64_t one_signal_ms = 500; ///< what comes within is the same request

std::atomic<int> received = 0;
std::atomic<int> first_received = 0;      ///< the signal's number
std::atomic<std::int64_t> counted_ms = 0; ///< when the newest one was
std::atomic<int> withstood = 1;           ///< so many do not end the process
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free,
              "a signal handler may touch nothing else");

std::int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1000} + now.tv_nsec / 1'000'000 + 1; // 0: never
}

/// One request may come as several signals: `timeout` sends its child one and then the child's group, a shell's Ctrl-C
/// reaches both a script and what it runs, and the kernel tells of a parent's end once a thread of it.
void receive(int signal) {
  int none = 0;
  const auto now = now_ms();
  auto before = counted_ms.load();
  if ((before != 0 && now - before < one_signal_ms) || !counted_ms.compare_exchange_strong(before, now))
    return;
  first_received.compare_exchange_strong(none, signal);
  if (received.fetch_add(1) >= withstood)
    _exit(exit_failed);
}

void quit(int) {
  _exit(exit_failed);
}

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  struct sigaction action {};
  if (sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) // as nohup has it
    sigaddset(&set, SIGHUP);
  return set;
}

/// Threads that were there before (OpenBLAS starts some when the program is loaded) have the signals open: they would
/// end the process without a word. What is ignored stays so.
void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN)
    return;
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

} // namespace

stop_signals::stop_signals(second_signal second) {
  received = first_received = 0;
  counted_ms = 0;
  withstood = second == second_signal::hurries ? 2 : 1;
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    set_handler(signal, &receive);
  set_handler(SIGQUIT, &quit);
  std::signal(SIGPIPE, SIG_IGN);
  waiter_ = std::jthread([this](const std::stop_token& done) {
    const sigset_t waited = stop_set();
    while (!done.stop_requested()) {
      if (const int signal = sigtimedwait(&waited, nullptr, &look_interval); signal > 0)
        receive(signal);
      if (received == 0)
        continue;
      if (first_received != SIGINT)
        terminated_.request_stop();
      stop_.request_stop();
      if (received > 1)
        hurried_.request_stop();
    }
  });
}

void stop_signals::request_leave() {
  if (stop_.stop_requested())
    return;
  terminated_.request_stop();
  stop_.request_stop();
}

stop_signals::~stop_signals() {
  waiter_ = {};
  const sigset_t set = stop_set(); // before an open SIGHUP is as it was
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    set_handler(signal, SIG_DFL);
  set_handler(SIGQUIT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

} // namespace dynamix::node
