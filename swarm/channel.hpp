#pragma once

#include "swarm/messages.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace dynamix::swarm {

/// One end of a pair of connected sockets that keep messages apart (SOCK_SEQPACKET), between processes of one program.
class channel {
public:
  channel() = default;
  explicit channel(int descriptor) : descriptor_(descriptor) {}
  channel(channel&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  channel& operator=(channel&& other) noexcept;
  ~channel();

  /// Both ends, closed on exec. Throws std::system_error.
  static std::pair<channel, channel> make_pair();

  int descriptor() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  /// False when the other end has gone.
  bool send(const part_message& message);
  /// The next message; nothing when none comes in time, or the other end has gone, which closes this one.
  std::optional<part_message> receive(std::chrono::milliseconds patience);
  void close();

private:
  int descriptor_ = -1;
};

/// Bytes of a message and back; nothing for bytes that are not a message.
std::string encode(const part_message& message);
std::optional<part_message> decode(const std::string& bytes);

} // namespace dynamix::swarm
