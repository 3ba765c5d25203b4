#pragma once

#include <chrono>
#include <iosfwd>
#include <optional>
#include <string>

namespace dynamix::node {

/// How output reaches a person.
struct output_style {
  bool redraw = false; ///< a terminal: the progress line is drawn over itself
  bool colour = false;
  std::size_t width = 80;
  std::size_t (*width_now)() = nullptr;     ///< of a terminal, whose width may change; null: `width` stays; may give 0
  std::chrono::milliseconds interval{5000}; ///< between progress lines

  /// Of the process's standard output; the environment's NO_COLOR and TERM=dumb are honoured.
  static output_style detect();
};

/// A progress line that keeps out of the way of everything else that is printed.
class live_output {
public:
  live_output(std::ostream& out, output_style style) : out_(out), style_(style) {}
  ~live_output();

  /// Shows the line, when enough time has passed since the last.
  void progress(const std::string& line);
  /// Prints lines that stay.
  void print(const std::string& text);
  void heading(const std::string& text);
  void problem(const std::string& text);

private:
  void clear();

  std::ostream& out_;
  output_style style_;
  bool drawn_ = false;
  std::string last_;
  std::optional<std::chrono::steady_clock::time_point> shown_at_; ///< nothing has been shown yet
};

/// The first `width` characters; counts characters, not bytes.
std::string cut(const std::string& text, std::size_t width);
/// What of it fits in `width` characters: whole words, and "..." where some are left out; of a first word that is too
/// long, its beginning.
std::string shorten(const std::string& text, std::size_t width);
/// Of a descriptor; 0: it is no terminal.
std::size_t terminal_width(int descriptor);

} // namespace dynamix::node
