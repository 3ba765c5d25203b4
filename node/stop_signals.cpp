#include "node/stop_signals.hpp"

#include "node/command_line.hpp"

#include <csignal>
#include <ctime>
#include <unistd.h>

namespace dynamix::node {
namespace {

constexpr timespec look_interval = {0, 100'000'000};

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

} // namespace

stop_signals::stop_signals() {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  waiter_ = std::jthread([this](const std::stop_token& done) {
    const sigset_t waited = stop_set();
    while (!done.stop_requested())
      if (sigtimedwait(&waited, nullptr, &look_interval) > 0 && !stop_.request_stop())
        _exit(exit_failed);
  });
}

stop_signals::~stop_signals() {
  waiter_ = {};
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

} // namespace dynamix::node
