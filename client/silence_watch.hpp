#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

namespace dynamix::client {

/// Whether the other end of a connection takes what it is sent: one that hangs keeps its connection open, and says
/// nothing that it would not say later. Knows no clock and no socket.
class silence_watch {
public:
  static constexpr double patience_seconds = 5;

  /// Tells of a sending what lay unread before it and lies there behind it, so that what it adds hides nothing of what
  /// was taken.
  void sent(std::size_t before, std::size_t after) {
    compare(before);
    unread_ = after;
  }

  /// `unread`: bytes, or about so many, that were sent and not taken by now. True: some lay there all the time, and the
  /// other end has taken nothing for the patience. Of the time since the last look no more counts than half of that,
  /// since who looks late may have slept itself, beside the other end.
  bool look(double now_seconds, std::size_t unread) {
    const double passed = std::min(now_seconds - std::exchange(looked_seconds_, now_seconds), patience_seconds / 2);
    compare(unread);
    silent_seconds_ = std::exchange(took_, false) ? 0 : silent_seconds_ + passed;
    return silent_seconds_ >= patience_seconds;
  }

private:
  void compare(std::size_t unread) {
    const auto before = std::exchange(unread_, unread);
    took_ = took_ || before == 0 || unread < before;
  }

  double looked_seconds_ = 0;
  std::size_t unread_ = 0;
  bool took_ = false; ///< since the last look
  double silent_seconds_ = 0;
};

} // namespace dynamix::client
