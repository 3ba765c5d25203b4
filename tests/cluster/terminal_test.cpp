/// `dynamix-node top` at a terminal: a real process under a pseudo-terminal.

#include "ledger/codec.hpp"
#include "tests/cluster/trial.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <poll.h>
#include <pty.h>
#include <sstream>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

namespace dynamix::cluster_test {
namespace {

using namespace node::testing;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

/// A process at a terminal of 100 columns and 30 lines.
class at_terminal {
public:
  at_terminal(std::vector<std::string> arguments, const std::vector<std::pair<std::string, std::string>>& environment) {
    const winsize size{.ws_row = 30, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    id_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (id_ == 0) {
      ::unsetenv("NO_COLOR");
      ::setenv("TERM", "xterm", 1);
      for (const auto& [name, value] : environment)
        ::setenv(name.c_str(), value.c_str(), 1);
      arguments.insert(arguments.begin(), DYNAMIX_NODE_PROGRAM);
      std::vector<char*> words;
      for (auto& each : arguments)
        words.push_back(each.data());
      words.push_back(nullptr);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
  }
  at_terminal(const at_terminal&) = delete;
  at_terminal& operator=(const at_terminal&) = delete;
  ~at_terminal() {
    if (!ended_) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
    }
    ::close(terminal_);
  }

  /// All that it has written.
  const std::string& said() {
    pollfd output{.fd = terminal_, .events = POLLIN, .revents = 0};
    std::array<char, 4096> bytes{};
    while (::poll(&output, 1, 0) > 0) {
      const auto count = ::read(terminal_, bytes.data(), bytes.size());
      if (count <= 0)
        break;
      said_.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return said_;
  }
  bool says(const std::string& text) {
    return wait_until([&] { return said().find(text) != std::string::npos; });
  }
  void press(char key) { ASSERT_EQ(::write(terminal_, &key, 1), 1); }
  void resize(unsigned short columns, unsigned short lines) {
    const winsize size{.ws_row = lines, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(::ioctl(terminal_, TIOCSWINSZ, &size), 0); // the kernel sends SIGWINCH
  }
  void terminate() { ::kill(id_, SIGTERM); }
  /// Whether keys are shown and wait for a line's end, as a shell leaves it.
  bool is_ordinary() const {
    termios now{};
    ::tcgetattr(terminal_, &now);
    return (now.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO);
  }
  /// The newest whole screen, line by line.
  std::vector<std::string> screen() {
    const auto& all = said();
    const auto end = all.rfind("\x1b[J");
    const auto begin = end == std::string::npos ? end : all.rfind("\x1b[H", end);
    std::vector<std::string> lines;
    if (begin == std::string::npos)
      return lines;
    std::istringstream text(all.substr(begin + 3, end - begin - 3));
    for (std::string line; std::getline(text, line);) {
      line.erase(line.find("\x1b[K"));
      lines.push_back(line);
    }
    return lines;
  }
  /// Its exit code; -1 when it does not end.
  int wait() {
    int status = 0;
    if (!wait_until([&] {
          said(); // so that it is never held up by a full terminal
          return ::waitpid(id_, &status, WNOHANG) == id_;
        }))
      return -1;
    ended_ = true;
    said();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

private:
  int terminal_ = -1;
  pid_t id_ = -1;
  bool ended_ = false;
  std::string said_;
};

const std::string screen_begins = "\x1b[?1049h\x1b[?25l";
const std::string screen_ends = "\x1b[?25h\x1b[?1049l";

class Top : public trial {
protected:
  void SetUp() override {
    ASSERT_EQ(run().create(), "");
    ASSERT_EQ(write_cluster_copy(run(), pair_file()), "");
    std::ofstream ledger(run().ledger());
    for (const auto& row : sample_rows())
      ledger << ledger::to_json_line(row) << "\n";
  }
  std::vector<std::string> arguments() const { return {"top", "--run", run().path()}; }
};

TEST_F(Top, DrawsAndLeavesTheTerminalAsItWas) {
  at_terminal terminal(arguments(), {});
  ASSERT_TRUE(terminal.says("q quit")) << terminal.said();
  EXPECT_THAT(terminal.said(), HasSubstr(screen_begins));
  EXPECT_THAT(terminal.said(), HasSubstr("\x1b[1mpair  ppo")) << "the head is bold";
  EXPECT_THAT(terminal.said(), HasSubstr("ben"));
  EXPECT_FALSE(terminal.is_ordinary()) << "a key works without a line's end";
  terminal.press('x');
  terminal.press('q');
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_THAT(terminal.said(), EndsWith(screen_ends));
  EXPECT_TRUE(terminal.is_ordinary());
}

TEST_F(Top, FollowsTheWindowAndWhatTheRunDoes) {
  at_terminal terminal(arguments(), {});
  ASSERT_TRUE(terminal.says("q quit"));
  terminal.resize(40, 8);
  EXPECT_TRUE(wait_until([&] {
    const auto lines = terminal.screen();
    return lines.size() <= 8 && !lines.empty() && lines.back().starts_with("q quit") &&
           std::ranges::all_of(lines, [](const auto& line) { return line.size() <= 40 + 8; }); // with colours
  })) << ::testing::PrintToString(terminal.screen());
  terminal.resize(100, 30);
  std::ofstream(run().ledger(), std::ios::app)
      << ledger::to_json_line({7, ledger::event{ledger::event_kind::lost, "ben", "the connection broke"}}) << "\n";
  EXPECT_TRUE(terminal.says("lost ben  the connection broke"));
  terminal.press('Q');
  EXPECT_EQ(terminal.wait(), 0);
}

TEST_F(Top, EndsWellAtCtrlCAndSigterm) {
  for (const bool key : {true, false}) {
    at_terminal terminal(arguments(), {});
    ASSERT_TRUE(terminal.says("q quit"));
    if (key)
      terminal.press('\x03');
    else
      terminal.terminate();
    EXPECT_EQ(terminal.wait(), 0);
    EXPECT_THAT(terminal.said(), EndsWith(screen_ends));
    EXPECT_TRUE(terminal.is_ordinary());
  }
}

TEST_F(Top, HasNoColoursWhereTheyAreNotWanted) {
  at_terminal terminal(arguments(), {{"NO_COLOR", "1"}});
  ASSERT_TRUE(terminal.says("q quit"));
  terminal.press('q');
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_THAT(terminal.said(), Not(::testing::ContainsRegex("\x1b\\[[0-9;]*m")));
}

TEST_F(Top, PrintsOnceWhereItCannotRedraw) {
  at_terminal dumb(arguments(), {{"TERM", "dumb"}});
  EXPECT_EQ(dumb.wait(), 0);
  EXPECT_THAT(dumb.said(), HasSubstr("pair  ppo"));
  EXPECT_THAT(dumb.said(), Not(HasSubstr("\x1b")));
  const auto piped = end_of(arguments()); // into a file
  EXPECT_EQ(piped.code, 0);
  EXPECT_THAT(piped.output, HasSubstr("pair  ppo"));
  EXPECT_THAT(piped.output, Not(HasSubstr("\x1b")));
}

TEST_F(Top, SaysAtATerminalAndElsewhereThatNothingAnswers) {
  const std::vector<std::string> nowhere = {"top", "--url", "http://127.0.0.1:9"};
  at_terminal terminal(nowhere, {});
  EXPECT_TRUE(terminal.says("nothing answers at http://127.0.0.1:9")) << terminal.said();
  terminal.press('q');
  EXPECT_EQ(terminal.wait(), 0);
  const auto piped = end_of(nowhere);
  EXPECT_EQ(piped.code, 2);
  EXPECT_THAT(piped.output, HasSubstr("nothing answers at http://127.0.0.1:9"));
}

} // namespace
} // namespace dynamix::cluster_test
