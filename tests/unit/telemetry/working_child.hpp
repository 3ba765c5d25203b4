#pragma once

#include <array>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dynamix::telemetry {

/// Another process, which does its work each time that it is told to.
class working_child {
public:
  /// `work` is called in the child, with the letter of the order.
  explicit working_child(const std::function<void(char order)>& work) {
    if (::pipe(orders_.data()) != 0 || ::pipe(done_.data()) != 0)
      throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ != 0)
      return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    char letter = 0;
    while (::read(orders_[0], &letter, 1) == 1) {
      work(letter);
      if (::write(done_[1], &letter, 1) != 1)
        break;
    }
    ::_exit(0);
  }
  working_child(const working_child&) = delete;
  working_child& operator=(const working_child&) = delete;
  ~working_child() {
    end();
    for (const int each : {orders_[0], orders_[1], done_[0], done_[1]})
      ::close(each);
  }

  int process() const { return process_; }
  /// Returns when it is done. The letter's meaning is the work's.
  void order(char letter = 'w') const {
    if (::write(orders_[1], &letter, 1) != 1 || ::read(done_[0], &letter, 1) != 1)
      throw std::runtime_error("the child does not answer");
  }
  void end() {
    if (ended_)
      return;
    ended_ = true;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

private:
  std::array<int, 2> orders_{};
  std::array<int, 2> done_{};
  int process_ = 0;
  bool ended_ = false;
};

} // namespace dynamix::telemetry
