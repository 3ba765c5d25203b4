#include "node/full_screen.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace dynamix::node {
namespace {

volatile std::sig_atomic_t ended = 0;

void note_end(int) {
  ended = 1;
}

void note_resize(int) {} // its work is to wake `poll`

void on_signal(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler; // without SA_RESTART
  ::sigaction(number, &action, nullptr);
}

void put(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const auto count = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR)
      return;
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
}

} // namespace

full_screen::full_screen() {
  ::tcgetattr(STDIN_FILENO, &before_);
  auto raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  on_signal(SIGINT, note_end);
  on_signal(SIGTERM, note_end);
  on_signal(SIGWINCH, note_resize);
  put("\x1b[?1049h\x1b[?25l"); // the alternate screen, no cursor
}

full_screen::~full_screen() {
  put("\x1b[?25h\x1b[?1049l");
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  for (const int number : {SIGINT, SIGTERM, SIGWINCH})
    ::signal(number, SIG_DFL);
}

full_screen::size full_screen::look() const {
  winsize found{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0 || found.ws_col == 0 || found.ws_row == 0)
    return {};
  return {found.ws_col, found.ws_row};
}

void full_screen::show(const std::vector<std::string>& lines) {
  const auto room = look().height;
  std::string text = "\x1b[H";
  for (std::size_t i = 0; i < std::min(lines.size(), room); ++i)
    text += (i == 0 ? "" : "\r\n") + lines[i] + "\x1b[K";
  put(text + "\x1b[J");
}

char full_screen::wait(std::chrono::milliseconds patience) {
  if (ended != 0)
    return 'q';
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::poll(&input, 1, static_cast<int>(patience.count())) <= 0)
    return ended != 0 ? 'q' : '\0';
  char key = 0;
  return ::read(STDIN_FILENO, &key, 1) == 1 ? key : 'q'; // nobody is there any more
}

} // namespace dynamix::node
