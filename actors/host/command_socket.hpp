#pragma once

/// Where a person's commands reach a running arbitrator: a Unix socket in its run directory, which only the user who
/// runs it can open. One line in, one line out.

#include "actors/client/client_listener.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace dynamix::actors {

inline constexpr std::size_t max_command_bytes = 256;
inline constexpr std::size_t max_command_answer_bytes = 1U << 20;

std::string command_socket_of(const std::string& run_directory, const std::string& host);

class command_socket {
public:
  /// Called for each command, one at a time, on a thread of the socket's.
  using answerer = std::function<std::string(const std::string& line)>;

  /// Null, with the reason, where it cannot listen there.
  static std::unique_ptr<command_socket> open(const std::string& path, answerer answer, std::string& problem);
  ~command_socket();
  command_socket(const command_socket&) = delete;
  command_socket& operator=(const command_socket&) = delete;

private:
  command_socket(std::shared_ptr<client_listener> listener, answerer answer);
  void serve();

  std::shared_ptr<client_listener> listener_;
  answerer answer_;
  int wake_;
  std::thread thread_;
};

/// Says `line` there and returns the answer. Empty with the reason in `problem`: nobody answers in time.
std::string ask_command_socket(const std::string& path, const std::string& line, std::chrono::milliseconds patience,
                               std::string& problem);

} // namespace dynamix::actors
