#include "swarm/channel.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <type_traits>
#include <unistd.h>

namespace dynamix::swarm {
namespace {

/// 4,096 workers' windows take 98 KiB.
constexpr std::size_t packet_bytes_max = 192 * 1024;
constexpr std::size_t text_bytes_max = 4096;

struct header {
  std::uint32_t what = 0;
  std::uint32_t batches = 0;
  std::uint32_t settling = 0;
  std::uint32_t workers = 0;
  std::uint32_t text = 0;
  std::uint32_t unused = 0;
  std::uint64_t window = 0;
  std::int64_t at_ns = 0;
  std::int64_t deadline_ns = 0;
  std::uint64_t placed = 0;
  traffic counted;
};
static_assert(std::is_trivially_copyable_v<header> && std::is_trivially_copyable_v<worker_window>);

template <class T>
void append(std::string& bytes, const T* values, std::size_t count) {
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

template <class Container>
void take(const std::string& bytes, std::size_t& at, Container& values, std::size_t count) {
  values.resize(count);
  const auto size = count * sizeof(typename Container::value_type);
  if (size > 0) // data() may be null
    std::memcpy(values.data(), bytes.data() + at, size);
  at += size;
}

} // namespace

std::string encode(const part_message& message) {
  const std::size_t text = std::min(message.text.size(), text_bytes_max);
  const header head{.what = static_cast<std::uint32_t>(message.what),
                    .batches = static_cast<std::uint32_t>(message.batches.size()),
                    .settling = static_cast<std::uint32_t>(message.settling.size()),
                    .workers = static_cast<std::uint32_t>(message.workers.size()),
                    .text = static_cast<std::uint32_t>(text),
                    .window = message.window,
                    .at_ns = message.at_ns,
                    .deadline_ns = message.deadline_ns,
                    .placed = message.placed,
                    .counted = message.traffic};
  std::string bytes;
  append(bytes, &head, 1);
  append(bytes, message.workers.data(), message.workers.size());
  append(bytes, message.batches.data(), message.batches.size());
  append(bytes, message.settling.data(), message.settling.size());
  append(bytes, message.text.data(), text);
  return bytes;
}

std::optional<part_message> decode(const std::string& bytes) {
  header head;
  if (bytes.size() < sizeof head)
    return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::uint64_t expected = sizeof head + std::uint64_t{head.workers} * sizeof(worker_window) +
                                 (std::uint64_t{head.batches} + head.settling) * sizeof(std::uint32_t) + head.text;
  if (bytes.size() != expected)
    return std::nullopt;
  part_message message{.what = static_cast<verb>(head.what),
                       .window = head.window,
                       .at_ns = head.at_ns,
                       .deadline_ns = head.deadline_ns,
                       .placed = head.placed,
                       .traffic = head.counted,
                       .batches = {},
                       .settling = {},
                       .workers = {},
                       .text = {}};
  std::size_t at = sizeof head;
  take(bytes, at, message.workers, head.workers);
  take(bytes, at, message.batches, head.batches);
  take(bytes, at, message.settling, head.settling);
  take(bytes, at, message.text, head.text);
  return message;
}

channel& channel::operator=(channel&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

channel::~channel() {
  close();
}

void channel::close() {
  if (descriptor_ >= 0)
    ::close(std::exchange(descriptor_, -1));
}

std::pair<channel, channel> channel::make_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a pair of sockets");
  const int bytes = static_cast<int>(packet_bytes_max);
  for (const int end : ends)
    ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return {channel(ends[0]), channel(ends[1])};
}

bool channel::send(const part_message& message) {
  if (!open())
    return false;
  const auto bytes = encode(message);
  ssize_t sent = 0;
  do
    sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

std::optional<part_message> channel::receive(std::chrono::milliseconds patience) {
  pollfd wanted{.fd = descriptor_, .events = POLLIN, .revents = 0};
  if (!open() || ::poll(&wanted, 1, static_cast<int>(patience.count())) <= 0)
    return std::nullopt;
  std::string bytes(packet_bytes_max, '\0');
  const ssize_t got = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
  if (got < 0 && errno == EINTR)
    return std::nullopt;
  if (got <= 0) {
    close();
    return std::nullopt;
  }
  bytes.resize(static_cast<std::size_t>(got));
  return decode(bytes);
}

} // namespace dynamix::swarm
