#include "actors/host/command_socket.hpp"

#include "storage/wait_for.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace dynamix::actors {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds line_patience{1000};
constexpr int accept_pause_ms = 100; ///< of a process that has no descriptor left

/// What comes up to the end of a line, or of all of it; false: it is too long, or does not come in time.
bool read_line(int descriptor, std::size_t most, milliseconds patience, std::string& line) {
  const auto deadline = steady_clock::now() + patience;
  std::array<char, 4096> piece{};
  while (line.find('\n') == std::string::npos) {
    if (!storage::wait_for(descriptor, POLLIN, deadline))
      return false;
    const auto count = ::recv(descriptor, piece.data(), piece.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN)
      continue;
    if (count <= 0)
      return false;
    line.append(piece.data(), static_cast<std::size_t>(count));
    if (line.size() > most)
      return false;
  }
  line.resize(line.find('\n'));
  return true;
}

/// False: the other side does not take it.
bool write_line(int descriptor, std::string line) {
  line += '\n';
  timeval patience{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  for (std::size_t written = 0; written < line.size();) {
    const auto count = ::send(descriptor, line.data() + written, line.size() - written, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    written += static_cast<std::size_t>(count);
  }
  return true;
}

} // namespace

std::string command_socket_of(const std::string& run_directory, const std::string& host) {
  return run_directory + "/control/" + host + ".sock";
}

std::unique_ptr<command_socket> command_socket::open(const std::string& path, answerer answer, std::string& problem) {
  auto listener = client_listener::open(path, problem);
  return listener ? std::unique_ptr<command_socket>(new command_socket(std::move(listener), std::move(answer)))
                  : nullptr;
}

command_socket::command_socket(std::shared_ptr<client_listener> listener, answerer answer)
    : listener_(std::move(listener)), answer_(std::move(answer)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { serve(); }) {}

command_socket::~command_socket() {
  ::eventfd_write(wake_, 1);
  thread_.join();
  ::close(wake_);
}

void command_socket::serve() {
  for (bool accepts = true;;) {
    pollfd events[] = {{.fd = wake_, .events = POLLIN, .revents = 0},
                       {.fd = accepts ? listener_->descriptor() : -1, .events = POLLIN, .revents = 0}};
    if (::poll(events, 2, accepts ? -1 : accept_pause_ms) < 0 && errno != EINTR)
      return;
    if (events[0].revents != 0)
      return;
    accepts = true;
    if (events[1].revents == 0)
      continue;
    const int caller = ::accept4(listener_->descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
    if (caller < 0) {
      accepts = false;
      continue;
    }
    std::string line;
    if (read_line(caller, max_command_bytes, line_patience, line))
      write_line(caller, answer_(line));
    ::close(caller);
  }
}

std::string ask_command_socket(const std::string& path, const std::string& line, milliseconds patience,
                               std::string& problem) {
  const int server = connect_to_listener(path);
  if (server < 0) {
    problem = std::strerror(errno);
    return "";
  }
  std::string answer;
  if (!write_line(server, line) || !read_line(server, max_command_answer_bytes, patience, answer)) {
    problem = "no answer";
    answer.clear();
  }
  ::close(server);
  return answer;
}

} // namespace dynamix::actors
