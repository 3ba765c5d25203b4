#pragma once

#include <stop_token>
#include <thread>

namespace dynamix::node {

/// SIGINT and SIGTERM as a stop request; the second one ends the process at once, with exit code 1. Make it before any
/// other thread of ours, so that the signals are blocked in all of them and interrupt nothing; one a process. SIGPIPE
/// is ignored: a peer that has gone is an error of a write.
class stop_signals {
public:
  stop_signals();
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;
  ~stop_signals();

  std::stop_token token() const { return stop_.get_token(); }
  /// Requested before `token()` where the first signal was SIGTERM, which is meant for one process.
  std::stop_token terminated() const { return terminated_.get_token(); }

private:
  std::stop_source stop_;
  std::stop_source terminated_;
  std::jthread waiter_;
};

} // namespace dynamix::node
