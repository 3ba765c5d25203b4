#pragma once

/// TCP proxies on loopback that can break what passes through them, in a thread of their own.

#include "faults/shaped_stream.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace dynamix::faults {

/// Seen from whoever connected: the client.
enum class way : std::uint8_t { to_server, to_client };

struct link_counters {
  std::uint64_t connections = 0;
  std::uint64_t waiting = 0; ///< connections that had to wait for the end of a hold
  std::uint64_t resets = 0;  ///< connections that were reset by a fault
  std::array<way_counters, 2> ways;

  const way_counters& of(way which) const { return ways[static_cast<std::size_t>(which)]; }
  /// Everything that a fault has done; grows with every effect.
  std::uint64_t touched() const { return waiting + resets + ways[0].touched() + ways[1].touched(); }
};

/// Thread-safe. At most 4096 links with 64 connections each; a connection beyond is closed.
class proxy {
public:
  proxy();
  proxy(const proxy&) = delete;
  proxy& operator=(const proxy&) = delete;
  ~proxy();

  /// Listens on a free port of 127.0.0.1 and forwards to `address` (IPv4) and `port`. Returns the port, or 0 where that
  /// is not possible.
  std::uint16_t add_link(const std::string& name, const std::string& address, std::uint16_t port);

  /// Of links that exist. A drop that ends resets the connections that lost bytes.
  void set(const std::string& name, way which, const link_condition& condition);
  void reset(const std::string& name);
  /// Flips a bit of the next chunk that passes.
  void corrupt_next(const std::string& name, way which);
  /// Lets half of the next chunk pass, and then ends the connection.
  void truncate_next(const std::string& name, way which);
  link_counters counters(const std::string& name) const;

private:
  class loop;
  std::unique_ptr<loop> loop_;
};

} // namespace dynamix::faults
