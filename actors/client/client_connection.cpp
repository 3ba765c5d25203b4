#include "actors/client/client_connection.hpp"

#include "storage/json_text.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dynamix::actors {

namespace {

static_assert(std::endian::native == std::endian::little, "the words of a frame are sent as they lie in memory");

constexpr std::size_t header_bytes = sizeof(std::uint32_t);
constexpr std::size_t frame_bytes_max = 64U << 10;
constexpr std::size_t output_bytes_max = 1U << 20;

session::client_peer ask_peer(int descriptor) {
  ucred who{};
  socklen_t length = sizeof(who);
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
    return {};
  return {.process = who.pid, .allowed = who.uid == ::geteuid() || who.uid == 0};
}

} // namespace

client_connection::client_connection(int descriptor) : descriptor_(descriptor), peer_(ask_peer(descriptor)) {
  if (peer_.process > 0)
    process_ = static_cast<int>(::syscall(SYS_pidfd_open, peer_.process, 0));
  if (process_ < 0)
    spdlog::warn("client_not_watched process={} error={}: its end is seen when its connection is closed", peer_.process,
                 storage::quoted(peer_.process > 0 ? std::strerror(errno) : "it is in another container"));
}

client_connection::~client_connection() {
  ::close(descriptor_);
  if (process_ >= 0)
    ::close(process_);
}

std::vector<client_connection::frame> client_connection::read(std::optional<std::string>& ended) {
  std::vector<frame> frames;
  std::array<std::byte, frame_bytes_max> chunk;
  const auto got = ::recv(descriptor_, chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return frames;
  if (got <= 0) {
    ended = got == 0 || errno == ECONNRESET ? std::string{closed}
                                            : fmt::format("the connection broke: {}", std::strerror(errno));
    return frames;
  }
  input_.insert(input_.end(), chunk.begin(), chunk.begin() + got);
  std::size_t taken = 0;
  while (input_.size() - taken >= header_bytes && !ended) {
    std::uint32_t count = 0;
    std::memcpy(&count, input_.data() + taken, header_bytes);
    const auto bytes = std::size_t{count} * sizeof(std::uint64_t);
    if (count == 0 || bytes > frame_bytes_max) {
      ended = fmt::format("it sends a frame of {} bytes; 8 to {} are allowed", bytes, frame_bytes_max);
      break;
    }
    if (input_.size() - taken - header_bytes < bytes)
      break;
    std::vector<std::uint64_t> words(count);
    std::memcpy(words.data(), input_.data() + taken + header_bytes, bytes);
    taken += header_bytes + bytes;
    frames.push_back(messages::decode(words));
    if (!frames.back())
      ended = fmt::format("it sends what is not a message: {}", frames.back().error().text);
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(taken));
  if (ended && !frames.empty() && !frames.back())
    frames.pop_back();
  return frames;
}

bool client_connection::write(const messages::any_message& message) {
  const auto encoded = messages::encode(message);
  if (!encoded || encoded->view().size_bytes() > frame_bytes_max) {
    spdlog::error("client_frame_not_sent kind={} error={}", messages::kind_name(message),
                  storage::quoted(encoded ? "too large" : encoded.error().text));
    return true;
  }
  const auto words = encoded->view();
  const auto count = static_cast<std::uint32_t>(words.size());
  const auto* header = reinterpret_cast<const std::byte*>(&count);
  const auto content = std::as_bytes(words);
  output_.insert(output_.end(), header, header + header_bytes);
  output_.insert(output_.end(), content.begin(), content.end());
  return flush() && output_.size() <= output_bytes_max;
}

bool client_connection::flush() {
  while (!output_.empty()) {
    const auto sent = ::send(descriptor_, output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
      return errno == EAGAIN || errno == EINTR;
    output_.erase(output_.begin(), output_.begin() + sent);
  }
  return true;
}

} // namespace dynamix::actors
