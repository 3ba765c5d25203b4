#pragma once

/// Connections between hosts, with TCP's semantics: what is sent on one connection arrives in order or not at all, and
/// nothing is lost but with the whole connection, which each side sees break in its own time. A link that is cut is
/// silent: what was sent waits, and goes on when the link heals before either side has given the connection up.
///
/// Hosts go by a number: the arbitrator's (in a tree the root's) is 0, that of the worker of rank r is r + 1.

#include "tests/simulation/arbitrator_side.hpp"
#include "tests/simulation/virtual_time.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace dynamix::simulation {

class simulation;

constexpr std::uint32_t root_host = 0;
constexpr std::uint32_t host_of(std::uint32_t rank) {
  return rank + 1;
}

enum class side : std::uint8_t { client, server };

/// One side of a connection.
struct connection_end {
  std::uint32_t host = 0;
  std::uint64_t life = 0; ///< of the host's process
  bool up = true;
  std::int64_t arrives_us = 0;            ///< the last that was sent to it
  std::deque<std::function<void()>> held; ///< sent to it while the link is cut
  std::map<caf::actor_id, caf::strong_actor_ptr>
      remotes; ///< what stands here for actors of the other side (remote.hpp)
};

/// Who connects: a worker, or an arbitrator of a tree that looks for its parent.
class connection_owner {
public:
  virtual ~connection_owner() = default;
  virtual void connection_lost(const connection_ptr& one) = 0;
  /// An actor of the server's side has ended.
  virtual void actor_gone(const connection_ptr& through, const caf::actor_addr& gone) = 0;
};

struct connection {
  std::array<connection_end, 2> ends; ///< by side
  connection_owner* owner = nullptr;
  std::uint32_t rank = 0;        ///< of a worker's
  proxy_actor proxy;             ///< the worker as the actors of the server see it; null where it is none's
  actors::gateway_actor gateway; ///< that was reached
  bool parted = false;           ///< the worker's process ended by itself, all said and heard
  std::uint64_t silences = 0;

  connection_end& at(side which) { return ends[static_cast<std::size_t>(which)]; }
  connection_end& client() { return at(side::client); }
  connection_end& server() { return at(side::server); }
  /// Between two parts of one process: nothing is ever late or lost.
  bool local() const { return ends[0].host == ends[1].host; }
  bool stands() const { return ends[0].up && ends[1].up; }
};

class network {
public:
  explicit network(simulation& world) : world_(world) {}
  ~network();

  /// A connection to the gateway of `server`, or none now. One that stands is found again.
  connection_ptr connect(connection_owner& owner, std::uint32_t client, std::uint32_t server);
  /// `deliver` runs at that side's host, unless the connection breaks before.
  void send(const connection_ptr& through, side to, std::function<void()> deliver);
  void to_server(const connection_ptr& through, std::function<void()> deliver) {
    send(through, side::server, std::move(deliver));
  }
  void to_client(const connection_ptr& through, std::function<void()> deliver) {
    send(through, side::client, std::move(deliver));
  }

  /// The host's connections break; both sides learn it.
  void reset(std::uint32_t host);
  /// The two hosts do not hear each other.
  void cut(std::uint32_t one, std::uint32_t other);
  void heal(std::uint32_t one, std::uint32_t other);
  void heal_all();
  /// The host's process is gone.
  void host_gone(std::uint32_t host);
  /// The host is silent since now; others give their connections up when that lasts.
  void await_silence(std::uint32_t host);
  /// A host that has been silent is back, and hears of connections that others have given up.
  void settle(std::uint32_t host);

  std::int64_t longest_delay_us = 0; ///< beyond the usual one; some messages wait up to so long

private:
  bool is_cut(const connection& one) const { return cut_.contains(std::minmax(one.ends[0].host, one.ends[1].host)); }
  static bool touches(const connection& one, std::uint32_t host) {
    return one.ends[0].host == host || one.ends[1].host == host;
  }
  bool is_silent(const connection& one) const;
  void await_silence(const connection_ptr& one);
  void settle(const connection_ptr& one);
  void arrive(const connection_ptr& through, side at, const std::function<void()>& deliver);
  void break_side(const connection_ptr& one, side which);
  void take_down(connection& one, side which);
  void forget_broken();
  std::int64_t latency_us();

  simulation& world_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> cut_;
  std::vector<connection_ptr> connections_; ///< with at least one side up
};

} // namespace dynamix::simulation
