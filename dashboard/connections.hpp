#pragma once

/// Which connections of the page may stay: how long each may take for what it does, and who goes where there are too
/// many. Without HTTP: pure but for `cut`, which shuts sockets down.

#include <algorithm>
#include <chrono>
#include <list>

namespace dynamix::dashboard {

using time_point = std::chrono::steady_clock::time_point;

/// So many a second, and `burst` at once after a pause (a token bucket).
class rate_limit {
public:
  rate_limit(double per_second, double burst) : per_second_(per_second), burst_(burst), left_(burst) {}

  bool take(time_point now) {
    if (now > last_) {
      left_ = std::min(burst_, left_ + per_second_ * std::chrono::duration<double>(now - last_).count());
      last_ = now;
    }
    if (left_ < 1)
      return false;
    left_ -= 1;
    return true;
  }

private:
  double per_second_;
  double burst_;
  double left_;
  time_point last_;
};

enum class connection_phase {
  reading,   ///< nothing, or a part of a request has come
  answering, ///< an answer is on its way
  streaming  ///< as long as the client takes what comes
};

struct connection {
  int socket;
  connection_phase phase = connection_phase::reading;
  time_point since; ///< it is in this phase
};

struct connection_limits {
  std::size_t most = 128; ///< beyond it the one that has been reading for the longest time goes
  std::chrono::milliseconds reading{10000};
  std::chrono::milliseconds answering{60000};
};

/// The connections of one listener. Not thread-safe. A socket that was cut is still to be removed by whoever owns it.
class connections {
public:
  using place = std::list<connection>::iterator;

  explicit connections(connection_limits limits) : limits_(limits) {}

  place add(int socket, time_point now) { return all_.insert(all_.end(), {.socket = socket, .since = now}); }
  void remove(place one) { all_.erase(one); }
  void enter(place one, connection_phase phase, time_point now) {
    one->phase = phase;
    one->since = now;
    all_.splice(all_.end(), all_, one); // in the order of `since`
  }
  std::size_t size() const { return all_.size(); }

  /// Shuts down those that take too long, and, where there are more than `most`, those that have been reading for the
  /// longest time.
  void cut(time_point now);

private:
  const connection_limits limits_;
  std::list<connection> all_;
};

} // namespace dynamix::dashboard
