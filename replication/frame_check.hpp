#pragma once

/// What libraft's reader takes on trust from a proven voter: counts, lengths and kinds in the frames of its messages.
/// It allocates whatever they say and follows them beyond what has come; a kind of entry that there is not ends the
/// process (libraft 0.15). So a link's bytes are looked at first.
///
/// A frame is a preamble (two little-endian words of 64 bits: the kind of message, the header's length), the header,
/// and after requests to append and to install a snapshot a payload of as many bytes as the header says.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dynamix::replication {

inline constexpr std::uint64_t frame_header_bytes_max = 1U << 20U; ///< 65,000 entries, where a voter keeps hundreds
inline constexpr std::uint64_t frame_payload_bytes_max = 256U << 20U;

class frame_check {
public:
  /// The next bytes of one connection, cut anywhere. Returns why they are none of libraft's messages; empty where they
  /// may be passed on.
  std::string feed(std::span<const char> bytes);

private:
  std::string take_header();

  std::vector<char> held_;    ///< of a preamble, or of the header behind it
  std::uint64_t kind_ = 0;    ///< of the message whose header is read; 0: a preamble is
  std::uint64_t wanted_ = 16; ///< bytes of what is held, once it is whole
  std::uint64_t payload_left_ = 0;
};

/// One for a pump's new link (links/pump.hpp).
inline std::function<std::string(std::span<const char>)> inspect_frames() {
  return [frames = frame_check{}](std::span<const char> bytes) mutable { return frames.feed(bytes); };
}

} // namespace dynamix::replication
