#pragma once

/// One training process's connection: frames in and out, and the process's life.

#include "messages/codec.hpp"
#include "session/client_slot.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::actors {

/// Owns an accepted socket, which does not block.
class client_connection {
public:
  explicit client_connection(int descriptor);
  ~client_connection();
  client_connection(const client_connection&) = delete;
  client_connection& operator=(const client_connection&) = delete;

  const session::client_peer& peer() const { return peer_; }
  int descriptor() const { return descriptor_; }
  /// Becomes readable when the process ends, although its children may hold the socket; -1: there is none.
  int process_descriptor() const { return process_; }

  /// The reason of an end that the peer wanted, or that its death brought.
  static constexpr const char* closed = "it closed the connection";

  using frame = messages::result<messages::any_message>;
  /// Reads what has come, 64 KiB at most, and gives the frames in it, in order. `ended` is set to the reason once
  /// nothing more will come: it was closed, or what came is not a frame.
  std::vector<frame> read(std::optional<std::string>& ended);

  /// Writes as much as the socket takes, and keeps the rest. False: the peer does not read, or is gone.
  bool write(const messages::any_message& message);
  bool flush();
  bool has_output() const { return !output_.empty(); }

private:
  int descriptor_;
  int process_ = -1;
  session::client_peer peer_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
};

} // namespace dynamix::actors
