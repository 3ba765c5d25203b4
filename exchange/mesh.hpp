#pragma once

/// Messages between the members of a group, over one connected stream to each of the others, moved by one thread.
///
/// What travels on a stream, each way: frames that begin with a header of 24 bytes, in this machine's byte order
///
///     ready   lane, bytes    "I am waiting for a message of so many bytes in this lane"
///     data    lane, bytes    followed by the message
///
/// A message leaves once its receiver has said that it waits for it. So it is read from the stream into the memory that
/// it is for, nothing is buffered, and a peer can send nothing that was not asked for: what it sends instead ends its
/// stream, never the process.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dynamix::exchange {

class mesh {
public:
  /// Told once, without a problem when the message has left or come. Must not block.
  using completion = std::function<void(const std::string& problem)>;

  /// `sockets` and `ranks`: by position. The sockets are streams, the mesh's from here on; that at `own` is -1. Ranks
  /// name members in problems.
  static std::shared_ptr<mesh> start(std::vector<int> sockets, std::vector<std::uint32_t> ranks, std::uint32_t own);
  virtual ~mesh() = default;

  virtual std::uint32_t position() const = 0;
  virtual std::uint32_t size() const = 0;

  /// Runs `action` on the mesh's thread, soon; at once where that has ended.
  virtual void run(std::function<void()> action) = 0;

  /// Only within `run` and completions. Messages of one sender to one receiver in one lane come in the order in which
  /// they were sent. Both ends name their length, which is not 0. The memory must stay until the completion is told.
  virtual void send(std::uint32_t to, std::uint64_t lane, std::span<const std::byte> bytes, completion done) = 0;
  virtual void receive(std::uint32_t from, std::uint64_t lane, std::span<std::byte> bytes, completion done) = 0;

  /// Everything that waits fails with `problem`, and all streams end. Returns at once.
  virtual void break_up(const std::string& problem) = 0;
  /// Sends what is under way, for at most two seconds, then as break_up. Returns when it is sent.
  virtual void finish() = 0;
};

} // namespace dynamix::exchange
