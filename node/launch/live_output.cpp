#include "node/launch/live_output.hpp"

#include <cstdlib>
#include <ostream>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace dynamix::node {
namespace {

constexpr const char* bold = "\x1b[1m";
constexpr const char* red = "\x1b[1;31m";
constexpr const char* plain = "\x1b[0m";

} // namespace

output_style output_style::detect() {
  output_style style;
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  style.redraw = isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string(term) != "dumb";
  style.colour = style.redraw && (no_color == nullptr || *no_color == '\0');
  if (style.redraw)
    style.interval = std::chrono::milliseconds(200);
  style.width_now = [] { return terminal_width(STDOUT_FILENO); };
  return style;
}

live_output::~live_output() {
  clear();
}

void live_output::clear() {
  if (drawn_)
    out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

void live_output::progress(const std::string& line) {
  const auto now = std::chrono::steady_clock::now();
  if (line == last_ || (shown_at_ && now - *shown_at_ < style_.interval))
    return;
  shown_at_ = now;
  last_ = line;
  const auto width = style_.width_now != nullptr ? style_.width_now() : 0;
  if (width > 0)
    style_.width = width;
  if (style_.redraw)
    out_ << "\r" << shorten(line, style_.width - 1) << "\x1b[K" << std::flush;
  else
    out_ << (width > 0 ? shorten(line, width) : line) << std::endl;
  drawn_ = style_.redraw;
}

void live_output::print(const std::string& text) {
  clear();
  out_ << text << (text.ends_with('\n') ? "" : "\n") << std::flush;
}

void live_output::heading(const std::string& text) {
  print(style_.colour ? bold + text + plain : text);
}

void live_output::problem(const std::string& text) {
  print(style_.colour ? red + text + plain : text);
}

std::size_t terminal_width(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string shorten(const std::string& text, std::size_t width) {
  constexpr std::string_view left_out = " ...";
  if (cut(text, width).size() == text.size())
    return text;
  const auto room = cut(text, width > left_out.size() ? width - left_out.size() : 0).size();
  const auto blank = text.find_last_of(' ', room);
  const auto end = blank == std::string::npos ? blank : text.find_last_not_of(' ', blank);
  return end == std::string::npos ? cut(text, width) : text.substr(0, end + 1) + std::string(left_out);
}

std::string cut(const std::string& text, std::size_t width) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U && characters++ == width)
      return text.substr(0, i);
  return text;
}

} // namespace dynamix::node
