#pragma once

/// One connection through the proxy. Internal to the room.

#include "faults/proxy.hpp"

#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

namespace dynamix::faults {

/// What happens to a link's bytes, shared by its connections.
struct link_state {
  std::array<link_condition, 2> conditions;
  std::array<bool, 2> corrupt_next{};
  std::array<bool, 2> truncate_next{};
  link_counters counters;

  bool held() const { return conditions[0].hold || conditions[1].hold; }
  bool dropping() const { return conditions[0].drop || conditions[1].drop; }
};

/// A non-blocking TCP socket of ours: -1 where there is none.
class tcp_socket {
public:
  explicit tcp_socket(int descriptor = -1) : descriptor_(descriptor) {}
  tcp_socket(tcp_socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  tcp_socket& operator=(tcp_socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~tcp_socket() { close(); }
  int get() const { return descriptor_; }
  void close();
  /// Ends it with RST.
  void reset();

private:
  int descriptor_;
};

///   accepted --no hold--> connecting --writable--> open --both ways ended--> over
///
/// While its link holds or drops, an accepted connection is connected to nobody.
class proxy_connection {
public:
  proxy_connection(int client, const sockaddr_in& target, link_state& link);

  /// What it waits for; appended.
  void add_polls(std::vector<pollfd>& polls) const;
  /// Does what can be done without waiting.
  void advance(double now_seconds);
  /// When it wants to be advanced, whatever its sockets say.
  std::optional<double> next_seconds(double now_seconds) const;
  void reset();
  /// It lost bytes: what passes from now on would be nonsense.
  bool torn() const { return torn_; }
  bool over() const { return over_; }

private:
  enum class phase { accepted, connecting, open };
  struct one_way {
    shaped_stream under_way;
    bool source_ended = false;
    bool source_failed = false; ///< with an error rather than an end
    bool sink_ended = false;
  };

  void connect();
  bool connected();
  void receive(way which, double now_seconds);
  void send(way which, double now_seconds);
  tcp_socket& source(way which) { return which == way::to_server ? client_ : server_; }
  tcp_socket& sink(way which) { return which == way::to_server ? server_ : client_; }

  tcp_socket client_;
  tcp_socket server_;
  sockaddr_in target_;
  link_state& link_;
  phase phase_ = phase::accepted;
  std::array<one_way, 2> ways_;
  bool had_to_wait_ = false;
  bool torn_ = false;
  bool ends_after_sending_ = false; ///< truncated
  bool over_ = false;
};

} // namespace dynamix::faults
