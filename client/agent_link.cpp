#include "client/agent_link.hpp"

#include "storage/wait_for.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace dynamix::client {

namespace {

constexpr double retry_interval_seconds = 1;
constexpr std::size_t waiting_bytes_max = 1U << 20;
constexpr std::size_t chunk_bytes = 1U << 16;
constexpr int chunks_max = 16; ///< taken in one call
constexpr std::size_t count_bytes = 4;

std::string error_text(int number) {
  return std::error_code(number, std::generic_category()).message();
}

/// A file that is closed at the end.
struct file_descriptor {
  int number = -1;
  ~file_descriptor() {
    if (number >= 0)
      ::close(number);
  }
};

/// A socket's address; a path that is too long for one goes through its directory's descriptor.
std::string address_of(const std::string& path, file_descriptor& directory, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  auto name = path;
  if (name.size() >= sizeof address.sun_path) {
    const auto slash = path.rfind('/');
    const auto parent = slash == std::string::npos ? std::string(".") : path.substr(0, slash + 1);
    directory.number = ::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory.number < 0)
      return error_text(errno);
    name = fmt::format("/proc/self/fd/{}/{}", directory.number, path.substr(slash + 1));
  }
  if (name.size() >= sizeof address.sun_path)
    return "the name of the socket is too long";
  std::memcpy(address.sun_path, name.data(), name.size());
  return {};
}

std::string verdict_text(messages::client_verdict verdict) {
  switch (verdict) {
  case messages::client_verdict::slot_taken:
    return "another process trains for this worker already; start one process for each agent's socket";
  case messages::client_verdict::protocol_mismatch:
    return "it is of another release; use the library that belongs to it";
  case messages::client_verdict::not_served:
    return "it takes no training process";
  case messages::client_verdict::accepted:
    break;
  }
  return "its answer makes no sense";
}

} // namespace

agent_link::agent_link(std::string path, messages::client_hello hello) : path_(std::move(path)), hello_(hello) {}

agent_link::~agent_link() {
  if (socket_ >= 0)
    ::close(socket_);
}

std::string agent_link::connect() {
  file_descriptor directory;
  sockaddr_un address;
  if (auto problem = address_of(path_, directory, address); !problem.empty())
    return problem;
  socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0)
    return error_text(errno);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const auto problem = error_text(errno);
    ::close(std::exchange(socket_, -1));
    return problem;
  }
  state_ = state::greeting;
  received_.clear();
  waiting_.clear();
  refusal_.clear();
  ended_.clear();
  silence_ = {};
  send(hello_);
  return {};
}

std::string agent_link::open(std::uint32_t timeout_ms, messages::client_welcome& welcome) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  if (const auto problem = connect(); !problem.empty())
    return fmt::format("cannot reach the agent at {}: {}; is it running (dynamix-node run, local or exec)?", path_,
                       problem);
  while (state_ == state::greeting) {
    if (!storage::wait_for(socket_, POLLIN, deadline)) {
      drop("no answer");
      return fmt::format("the agent at {} has not answered within {} ms", path_, timeout_ms);
    }
    take_all([&welcome](messages::any_message& what) {
      if (const auto* found = std::get_if<messages::client_welcome>(&what))
        welcome = *found;
    });
  }
  if (connected())
    return {};
  news_.clear();
  return fmt::format("the agent at {} refuses this process: {}", path_,
                     refusal_.empty() ? "it has closed the connection" : refusal_);
}

void agent_link::send(const messages::any_message& what) {
  if (socket_ < 0)
    return;
  const auto frame = messages::encode(what);
  if (!frame || frame->view().size() > agent_frame_words_max) {
    news_ = fmt::format("not sent to the agent: {}: {}", messages::kind_name(what),
                        frame ? "it is too large" : frame.error().text);
    return;
  }
  const auto before = unread();
  const auto words = frame->view();
  const auto count = static_cast<std::uint32_t>(words.size());
  for (std::size_t i = 0; i < count_bytes; ++i)
    waiting_.push_back(static_cast<std::uint8_t>(count >> (8 * i)));
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(words.data());
  waiting_.insert(waiting_.end(), bytes, bytes + words.size_bytes());
  flush();
  silence_.sent(before, unread());
  if (waiting_.size() > waiting_bytes_max)
    drop("it takes nothing any more");
}

bool agent_link::flush() {
  std::size_t sent = 0;
  while (sent < waiting_.size()) {
    const auto count = ::send(socket_, waiting_.data() + sent, waiting_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      break; // a connection that broke shows when it is read
    sent += static_cast<std::size_t>(count);
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(sent));
  return waiting_.empty();
}

bool agent_link::fill() {
  if (socket_ < 0)
    return false;
  std::array<std::uint8_t, chunk_bytes> chunk;
  const auto count = ::recv(socket_, chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (count > 0) {
    received_.insert(received_.end(), chunk.begin(), chunk.begin() + count);
    return received_.size() < chunks_max * chunk_bytes;
  }
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return false;
  ended_ = count == 0 ? "it has closed the connection" : error_text(errno); // behind what has come before
  return false;
}

void agent_link::take_frames(const receiver& receive) {
  std::size_t at = 0;
  while (socket_ >= 0 && received_.size() - at >= count_bytes) {
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < count_bytes; ++i)
      count |= std::uint32_t{received_[at + i]} << (8 * i);
    if (count == 0 || count > agent_frame_words_max)
      return drop(fmt::format("it sent a frame of {} words", count));
    const auto bytes = count * sizeof(std::uint64_t);
    if (received_.size() - at - count_bytes < bytes)
      break;
    std::vector<std::uint64_t> words(count);
    std::memcpy(words.data(), received_.data() + at + count_bytes, bytes);
    at += count_bytes + bytes;
    auto decoded = messages::decode(words);
    if (!decoded)
      return drop("it sent something else than a message: " + decoded.error().text);
    take(*decoded, receive);
  }
  received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(std::min(at, received_.size())));
}

void agent_link::take(messages::any_message& what, const receiver& receive) {
  auto* welcome = std::get_if<messages::client_welcome>(&what);
  if ((welcome != nullptr) != (state_ == state::greeting))
    return drop(fmt::format("it sent {} {} its welcome", messages::kind_name(what),
                            state_ == state::greeting ? "before" : "after"));
  if (welcome != nullptr) {
    if (welcome->verdict != messages::client_verdict::accepted) {
      refusal_ = verdict_text(welcome->verdict) + (welcome->detail.empty() ? "" : " (" + welcome->detail + ")");
      return drop(refusal_);
    }
    state_ = state::welcomed;
    told_.clear();
    news_ = fmt::format("connected to the agent of {}", welcome->host);
  }
  receive(what);
}

void agent_link::drop(const std::string& why) {
  if (socket_ < 0)
    return;
  ::close(std::exchange(socket_, -1));
  // An agent that refuses again and again is told of once.
  if (state_ == state::welcomed || told_ != why)
    news_ = state_ == state::welcomed
                ? fmt::format("lost the agent at {}: {}; training goes on with the batch sizes in force", path_, why)
                : fmt::format("the agent at {} does not take this process: {}", path_, why);
  told_ = why;
  state_ = state::down;
  retry_seconds_ = pumped_seconds_ + retry_interval_seconds;
  received_.clear();
  waiting_.clear();
}

std::size_t agent_link::unread() const {
  int count = 0; // with what the kernel needs for it; none where it does not tell
  ::ioctl(socket_, SIOCOUTQ, &count);
  return waiting_.size() + static_cast<std::size_t>(std::max(0, count));
}

void agent_link::pump(double now_seconds, const receiver& receive) {
  pumped_seconds_ = now_seconds;
  if (socket_ < 0) {
    if (now_seconds < retry_seconds_)
      return;
    retry_seconds_ = now_seconds + retry_interval_seconds;
    if (!connect().empty())
      return;
  }
  if (!waiting_.empty())
    flush();
  take_all(receive);
  if (connected() && silence_.look(now_seconds, unread()))
    drop(fmt::format("it has taken nothing for {} s", silence_watch::patience_seconds));
}

void agent_link::take_all(const receiver& receive) {
  while (fill()) {
  }
  take_frames(receive);
  if (!ended_.empty())
    drop(std::exchange(ended_, {}));
}

void agent_link::close(std::uint32_t timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (socket_ >= 0 && storage::wait_for(socket_, waiting_.empty() ? POLLIN : POLLIN | POLLOUT, deadline)) {
    if (!waiting_.empty())
      flush();
    while (fill()) {
    }
    received_.clear(); // nothing counts any more
    if (!ended_.empty())
      break;
  }
  if (socket_ >= 0)
    ::close(std::exchange(socket_, -1));
  state_ = state::down;
  news_.clear();
}

} // namespace dynamix::client
