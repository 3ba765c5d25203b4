#pragma once

/// A host's one port, at which others open links of every kind: callers prove who they are, and each is led to the pump
/// of the protocol that it asks for by ALPN. On a thread of its own, so that strangers hold up no link.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace dynamix::links {

class pump;

struct door_options {
  std::string directory; ///< of this host's three files (links/identity.hpp)
  std::string host;      ///< this one's name
  std::chrono::milliseconds handshake_timeout{3000};
  std::size_t handshakes_max = 256; ///< at a time; the oldest is cut for one more
  /// One line a refused connection, at most 20 per minute of this door, and one that counts the others. Called on the
  /// door's thread.
  std::function<void(const std::string& line)> report = [](const std::string&) {};
};

/// What a door has done so far.
struct door_counts {
  std::uint64_t proven = 0;      ///< and led to a pump
  std::uint64_t refused = 0;     ///< and reported
  std::size_t shaking_hands = 0; ///< now
};

class door {
public:
  /// Reads this host's keys and starts the thread. Null where that is not possible, with the reason.
  static std::unique_ptr<door> start(door_options options, std::string& problem);
  /// As `end`.
  ~door();
  door(const door&) = delete;
  door& operator=(const door&) = delete;

  /// Whoever asks for the protocol of `to`, and may connect by its options, is led there. Once a protocol.
  void lead_to(std::shared_ptr<pump> to);
  /// Takes connections at `address` and `port` (0: any that is free). Once, and after `lead_to`: callers for whose
  /// protocol there is no pump are refused. Returns an empty string, or why not.
  std::string listen(const std::string& address, std::uint16_t port);
  std::uint16_t port() const; ///< 0: it does not listen

  /// Closes the port, and cuts whoever has not proven himself.
  void end();

  door_counts counts() const;

private:
  class loop;
  explicit door(std::unique_ptr<loop> running);
  std::unique_ptr<loop> loop_;
};

} // namespace dynamix::links
