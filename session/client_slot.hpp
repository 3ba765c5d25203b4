#pragma once

/// The place of one training process at its host's agent. Knows no CAF, no clock and no socket: what happens goes in by
/// the functions below, and what is to be done comes out of `take_effects`.

#include "messages/types.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace dynamix::session {

/// Counts the connections of an agent's life, from 1.
using connection_number = std::uint64_t;

/// Who is at the other end of a connection, as the kernel says.
struct client_peer {
  int process = 0;      ///< 0: unknown, as in another container
  bool allowed = false; ///< it is the agent's own user, or root
};

namespace client_effects {

/// A frame for a connection.
struct send {
  connection_number connection = 0;
  std::variant<messages::client_welcome, messages::placement, messages::decision, messages::client_notice> message;
};
/// End a connection behind what was sent.
struct close {
  connection_number connection = 0;
};

/// This process trains for the host now; 0: none does.
struct follow {
  int process = 0;
};
/// A client is ready to train in a generation, or its group has been formed anew meanwhile.
struct ready {
  std::uint32_t members = 0; ///< of its group, as it is now
};
/// It is gone.
struct lost {
  std::string reason;
};
/// The generation that the host was placed in is left.
struct left {
  std::string reason;
};
/// So many steps are completed.
struct progress {
  std::uint64_t steps = 0;
};
struct report {
  messages::window_report report;
};
struct evaluated {
  messages::evaluation_report report;
};
/// Training has come to its end.
struct finished {
  messages::farewell farewell;
};
struct log {
  bool warning = false;
  std::string text;
};

} // namespace client_effects

using client_effect =
    std::variant<client_effects::send, client_effects::close, client_effects::follow, client_effects::ready,
                 client_effects::lost, client_effects::left, client_effects::progress, client_effects::report,
                 client_effects::evaluated, client_effects::finished, client_effects::log>;

struct client_slot_options {
  /// As an accepted client gets it, but for its generation.
  messages::client_welcome welcome;
  std::string socket; ///< for a person
  bool open = false;  ///< the group may be smaller than the cluster, of which hosts come and go
};

/// At most one training process has the slot:
///
///     vacant --hello--> welcomed --first heartbeat--> ready --farewell of a good end--> closed
///       ^                  |                            |
///       +------------------+----------------------------+   its connection or its process has ended, or it has
///                                                           connected anew
///
/// Generations are the arbitrator's and the worker's affair. A client keeps the process group that its user gave it:
/// a generation that ends or regroups costs it no step, it only takes the next one's decisions. An elastic group may
/// lose members and take them back: whenever it has been formed anew, its clients say hello again.
class client_slot {
public:
  explicit client_slot(client_slot_options options);

  // Of connections.

  void connected(double now_seconds, connection_number connection, const client_peer& peer);
  void received(connection_number connection, const messages::client_hello& said);
  void received(connection_number connection, const messages::heartbeat& said);
  void received(connection_number connection, const messages::window_report& said);
  void received(connection_number connection, const messages::evaluation_report& said);
  void received(connection_number connection, const messages::farewell& said);
  /// What no client says, or no message at all. Ends the connection.
  void violated(connection_number connection, const std::string& what);
  /// The connection has ended; `reason` as in "its connection has ended".
  void disconnected(connection_number connection, const std::string& reason);
  /// To be called about once a second.
  void tick(double now_seconds);

  // Of the worker.

  void placed(const messages::placement& place);
  /// Its generation is over, or is to be left.
  void leave(const std::string& reason);
  void decided(const messages::decision& decision);
  /// The client, and any that comes, is to end training at the next agreement of all members.
  void stop(const std::string& reason);
  /// Nobody is served any more.
  void close(const std::string& reason);

  std::vector<client_effect> take_effects() { return std::exchange(effects_, {}); }

  bool ready() const { return ready_; }
  std::uint64_t steps() const { return steps_; }

private:
  struct connection {
    client_peer peer;
    double since_seconds = 0;
    std::uint64_t incarnation = 0; ///< of its process
    std::uint32_t messages = 0;    ///< in the present second
    std::uint32_t members = 0;     ///< of its group, as its first hello says: no later one says more
    std::uint32_t present = 0;     ///< of these, as its newest hello says
    bool said_hello = false;
    bool closing = false;
  };

  connection* find(connection_number number);
  connection* sender(connection_number number);
  bool serves(connection_number number) const { return served_ == number; }
  void regrouped(connection_number number, connection& one, std::uint32_t present);
  void refuse(connection_number number, messages::client_verdict verdict, std::string detail);
  void end(connection_number number);
  void vacate(const std::string& reason);
  std::string name_of(const connection& one) const;
  template <class Message>
  void send(connection_number number, Message message) {
    effects_.push_back(client_effects::send{number, std::move(message)});
  }
  void log(bool warning, std::string text);

  client_slot_options options_;
  std::vector<client_effect> effects_;
  std::map<connection_number, connection> connections_;
  connection_number served_ = 0; ///< 0: none
  bool ready_ = false;
  std::uint64_t steps_ = 0; ///< that the served client has completed
  std::optional<messages::placement> place_;
  std::optional<std::string> stop_reason_;
  std::optional<std::string> closed_because_;
  double counted_seconds_ = 0;
  std::optional<double> told_seconds_; ///< that a client is waited for
};

} // namespace dynamix::session
