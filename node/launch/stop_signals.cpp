#include "node/launch/stop_signals.hpp"

#include "node/commands/command_line.hpp"

#include <atomic>
#include <csignal>
#include <ctime>
#include <unistd.h>

namespace dynamix::node {
namespace {

constexpr timespec look_interval = {0, 100'000'000};

std::atomic<int> received = 0;
std::atomic<int> first_received = 0; ///< the signal's number
std::atomic<int> withstood = 1;      ///< so many do not end the process
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch nothing else");

void receive(int signal) {
  int none = 0;
  first_received.compare_exchange_strong(none, signal);
  if (received.fetch_add(1) >= withstood)
    _exit(exit_failed);
}

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
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
  withstood = second == second_signal::hurries ? 2 : 1;
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  for (const int signal : {SIGINT, SIGTERM})
    set_handler(signal, &receive);
  std::signal(SIGPIPE, SIG_IGN);
  waiter_ = std::jthread([this](const std::stop_token& done) {
    const sigset_t waited = stop_set();
    while (!done.stop_requested()) {
      if (const int signal = sigtimedwait(&waited, nullptr, &look_interval); signal > 0)
        receive(signal);
      if (received == 0)
        continue;
      if (first_received == SIGTERM)
        terminated_.request_stop();
      stop_.request_stop();
      if (received > 1)
        hurried_.request_stop();
    }
  });
}

stop_signals::~stop_signals() {
  waiter_ = {};
  for (const int signal : {SIGINT, SIGTERM})
    set_handler(signal, SIG_DFL);
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

} // namespace dynamix::node
