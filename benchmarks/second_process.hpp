#pragma once

/// A second process of a benchmark's own program, spoken to line by line, so that the CPU of both sides of something
/// can be told apart.

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace dynamix::benchmarks {

class second_process {
public:
  /// With these arguments. Throws std::runtime_error where there is none to be had.
  explicit second_process(std::vector<std::string> arguments) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe(in.data()) != 0 || ::pipe(out.data()) != 0)
      throw std::runtime_error("no pipe");
    arguments.insert(arguments.begin(), "second");
    std::vector<char*> words;
    for (auto& each : arguments)
      words.push_back(each.data());
    words.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      for (const int each : {in[0], in[1], out[0], out[1]})
        ::close(each);
      ::execv("/proc/self/exe", words.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = ::fdopen(in[1], "w");
    from_ = ::fdopen(out[0], "r");
  }
  second_process(const second_process&) = delete;
  second_process& operator=(const second_process&) = delete;
  /// It ends when it reads on.
  ~second_process() {
    std::fclose(to_);
    std::fclose(from_);
    ::waitpid(process_, nullptr, 0);
  }

  /// A line, for which `wait_for_word` waits there.
  void give_word() const {
    std::fputc('\n', to_);
    std::fflush(to_);
  }
  /// What it has said with `say`. Throws std::runtime_error where it has ended.
  std::string answer() const {
    std::array<char, 256> text{};
    if (std::fgets(text.data(), text.size(), from_) == nullptr)
      throw std::runtime_error("the second process has ended");
    return text.data();
  }

  // In the second process.
  static void say(const std::string& line) {
    std::puts(line.c_str());
    std::fflush(stdout);
  }
  /// False: there comes none any more.
  static bool wait_for_word() { return std::getchar() != EOF; }

private:
  pid_t process_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

} // namespace dynamix::benchmarks
