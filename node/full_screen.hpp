#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <termios.h>
#include <vector>

namespace dynamix::node {

/// The terminal as one screen that is drawn over itself; as it was again when this ends, also after Ctrl-C. One a
/// process, on standard input and output, which must be a terminal.
class full_screen {
public:
  full_screen();
  ~full_screen();
  full_screen(const full_screen&) = delete;
  full_screen& operator=(const full_screen&) = delete;

  struct size {
    std::size_t width = 80;
    std::size_t height = 24;
  };
  size look() const;
  /// Lines beyond the screen's height are left out.
  void show(const std::vector<std::string>& lines);
  /// A key, 'q' after Ctrl-C or SIGTERM, 0 when the time is over or the window was resized.
  char wait(std::chrono::milliseconds patience);

private:
  termios before_{};
};

} // namespace dynamix::node
