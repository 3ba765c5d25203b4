#pragma once

/// How the workers of one part reach whoever decides: by actors (actors/swarm/swarm_transport.hpp).

#include "messages/types.hpp"
#include "swarm/messages.hpp"

#include <cstdint>
#include <vector>

namespace dynamix::swarm {

/// What the transport tells, from any thread.
class transport_events {
public:
  virtual ~transport_events() = default;
  /// The worker has a place in a generation, from which it can report.
  virtual void placed(std::uint32_t rank) = 0;
  /// The worker's report of the open window left now.
  virtual void sent(std::uint32_t rank) = 0;
  /// The worker has applied this decision now.
  virtual void applied(const messages::decision& decision) = 0;
  /// The worker has said farewell, or ended otherwise.
  virtual void left(std::uint32_t rank) = 0;
  /// The part cannot go on.
  virtual void failed(const std::string& reason) = 0;
};

class transport {
public:
  virtual ~transport() = default;
  /// Every worker connects and says hello.
  virtual void join() = 0;
  /// Makes the reports of the next window ready, one a worker of the part, in the order of ranks. Generation and
  /// decision are the transport's to fill in.
  virtual void prepare(std::vector<messages::window_report> reports) = 0;
  /// Sends them all, each as soon as it can.
  virtual void send() = 0;
  /// Every worker says farewell.
  virtual void finish() = 0;
  virtual swarm::traffic traffic() const = 0;
};

} // namespace dynamix::swarm
