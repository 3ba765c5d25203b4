#pragma once

/// Connections between workers' hosts and the arbitrator's host, with TCP's semantics: what is sent on one connection
/// arrives in order or not at all, and nothing is lost but with the whole connection, which each side sees break in its
/// own time. A link that is cut is silent: what was sent waits, and goes on when the link heals before either side has
/// given the connection up.

#include "tests/simulation/arbitrator_side.hpp"
#include "tests/simulation/virtual_time.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace dynamix::simulation {

class simulation;

/// One side of a connection.
struct connection_end {
  bool up = true;
  std::int64_t arrives_us = 0;            ///< the last that was sent to it
  std::deque<std::function<void()>> held; ///< sent to it while the link is cut
};

struct connection {
  std::uint32_t rank = 0;
  std::uint64_t incarnation = 0; ///< of the worker's process
  std::uint64_t host_life = 0;   ///< of the arbitrator's host
  connection_end hub;
  connection_end worker;
  proxy_actor proxy;             ///< the worker as the arbitrator's actors see it
  actors::gateway_actor gateway; ///< that the worker reached
  bool parted = false;           ///< the worker's process ended by itself, all said and heard
};
using connection_ptr = std::shared_ptr<connection>;

class network {
public:
  network(simulation& world, std::uint32_t workers);
  ~network();

  /// A connection of the worker to the arbitrator's gateway, or none now. One that stands is found again.
  connection_ptr connect(std::uint32_t rank, std::uint64_t incarnation);
  /// `deliver` runs at the arbitrator's host, unless the connection breaks before.
  void to_hub(const connection_ptr& through, std::function<void()> deliver);
  /// `deliver` runs in the worker's process, unless the connection breaks before.
  void to_worker(const connection_ptr& through, std::function<void()> deliver);

  /// The connection breaks; both sides learn it.
  void reset(std::uint32_t rank);
  void cut(std::uint32_t rank);
  void heal(std::uint32_t rank);
  bool is_cut(std::uint32_t rank) const { return cut_[rank]; }
  /// The worker's process is gone.
  void worker_gone(std::uint32_t rank, std::uint64_t incarnation);
  void hub_gone();
  /// One side is silent since now; the other gives the connection up when that lasts.
  void await_silence(std::uint32_t rank);
  /// A side that has been silent is back, and hears of connections that the other side has given up.
  void settle(std::uint32_t rank);

  bool stands(const connection& one) const { return one.hub.up && one.worker.up; }
  std::int64_t longest_delay_us = 0; ///< beyond the usual one; some messages wait up to so long

private:
  void send(const connection_ptr& through, bool to_hub, std::function<void()> deliver);
  void arrive(const connection_ptr& through, bool at_hub, const std::function<void()>& deliver);
  void break_hub_side(const connection_ptr& one);
  void break_worker_side(const connection_ptr& one);
  std::int64_t latency_us();

  simulation& world_;
  std::vector<bool> cut_;
  std::vector<std::uint64_t> silences_;
  std::vector<connection_ptr> connections_; ///< with at least one side up
};

} // namespace dynamix::simulation
