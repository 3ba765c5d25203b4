#pragma once

#include <cstdint>
#include <stop_token>
#include <thread>

namespace dynamix::node {

/// What a second signal does; the one after it always ends the process. Signals within half a second are one.
enum class second_signal : std::uint8_t {
  ends,   ///< the process, at once, with exit code 1
  hurries ///< whoever stops: what there is has still to be told
};

/// SIGINT, SIGTERM and, unless it is ignored, SIGHUP as a stop request. Make it before any other thread of ours, so
/// that the signals are blocked in all of them and interrupt nothing; one a process. SIGQUIT (Ctrl-\) ends the process
/// at once, with exit code 1. SIGPIPE is ignored: a peer that has gone is an error of a write.
class stop_signals {
public:
  explicit stop_signals(second_signal second = second_signal::ends);
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;
  ~stop_signals();

  std::stop_token token() const { return stop_.get_token(); }
  /// Requested after `token()`, by a second signal that hurries.
  std::stop_token hurried() const { return hurried_.get_token(); }
  /// As a first SIGTERM, but counted as none: who takes a host back gives a notice and sends a signal, in either order.
  void request_leave();
  /// Requested before `token()` where the first signal was SIGTERM or SIGHUP, which are meant for one process.
  std::stop_token terminated() const { return terminated_.get_token(); }

private:
  std::stop_source stop_;
  std::stop_source hurried_;
  std::stop_source terminated_;
  std::jthread waiter_;
};

} // namespace dynamix::node
