#pragma once

/// The arbitrator's host: its real actors under their real supervisors, and for every connection an actor that stands
/// there for the worker behind it.

#include "actors/aggregator/aggregator.hpp"
#include "actors/arbitrator/arbitrator.hpp"
#include "actors/host/supervisor.hpp"
#include "actors/host_events.hpp"
#include "actors/interfaces.hpp"
#include "actors/network/gateway.hpp"
#include "ledger/file.hpp"
#include "replication/journal.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::simulation {

namespace atom = actors::atom;
using actors::message;

class simulation;
struct connection;
using connection_ptr = std::shared_ptr<connection>;

/// What a request of a worker came to.
struct answer {
  bool heard = false; ///< otherwise it failed, or time is over
  message<messages::welcome> said;
  actors::aggregator_actor aggregator;
};

/// A worker as the arbitrator's actors see it; what they send goes over the connection. The other handlers are requests
/// of the worker, with the ticket that its answer carries.
using proxy_actor = actors::worker_actor::extend<
    caf::reacts_to<atom::hello, std::uint64_t, message<messages::hello>>,
    caf::reacts_to<atom::beat, std::uint64_t, actors::aggregator_actor, message<messages::heartbeat>>,
    caf::reacts_to<atom::settle, std::uint64_t, actors::aggregator_actor>,
    caf::reacts_to<atom::farewell, std::uint64_t, actors::aggregator_actor, message<messages::farewell>>,
    caf::reacts_to<atom::connected, actors::gateway_actor>>;

/// The worker behind this connection, for the actors of the host that it has reached.
proxy_actor spawn_proxy(simulation& world, const connection_ptr& through);

/// As actors/host/host_services.cpp starts and connects them.
class arbitrator_host {
public:
  explicit arbitrator_host(simulation& world) : world_(world) {}
  ~arbitrator_host();

  void start();
  /// The process dies at once.
  void crash();
  /// True: the host has ended with it, and is to be started again.
  bool kill_aggregator();
  void kill_arbitrator();
  void kill_gateway();
  /// Of a person, about the shards of a tree.
  void command(const std::string& line);
  /// Stops the process (SIGSTOP), or lets it go on.
  void freeze();
  void thaw();
  /// Looks whether the run is over, or a supervisor has given up.
  void poll();

  bool alive() const { return alive_; }
  /// The run is over, and the process has ended with it.
  bool ended() const { return ended_; }
  const actors::part_outcome& outcome() const { return outcome_; }
  /// A replica: what a majority keeps outlives the process, and it goes on from there as another leader would.
  void replicate() { replicated_ = true; }
  bool replicated() const { return replicated_; }
  void commit(replication::journal_entry entry, const std::function<void(bool kept)>& done);
  /// It began with the end of training in the journal, and no generation was formed since.
  bool began_after_the_end() const {
    return before_ && before_->end.generation > 0 && kept_.state().end == before_->end;
  }
  std::uint64_t life() const { return life_; }
  /// Counts aggregators, of all lives.
  std::uint64_t aggregator_life() const { return aggregators_.size(); }
  /// That of the aggregator that has spawned this actor.
  std::uint64_t aggregator_life_of(caf::actor_id spawned) const;
  bool reachable() const;
  actors::gateway_actor gateway() const { return caf::actor_cast<actors::gateway_actor>(gateway_); }
  /// Runs at the host: later when it is stopped, never when it dies before.
  void run(std::function<void()> action);

private:
  void start_trees();
  void end_actors();
  void tell_gateway();
  caf::strong_actor_ptr start_gateway();
  caf::strong_actor_ptr start_aggregator();
  caf::strong_actor_ptr start_arbitrator();

  simulation& world_;
  bool alive_ = false;
  bool ended_ = false;
  bool gateway_stands_ = false;
  actors::part_outcome outcome_;
  std::uint64_t life_ = 0;
  std::vector<caf::actor_id> aggregators_; ///< rising
  bool replicated_ = false;
  replication::journal kept_;
  actors::shard_layout layout_; ///< in a file
  std::int64_t told_us_ = 0;    ///< when the newest of what it keeps is told
  std::shared_ptr<actors::decision_journal> journal_;
  std::shared_ptr<const replication::journal_state> before_;
  std::vector<std::function<void()>> deferred_;
  std::shared_ptr<actors::host_events> events_;
  std::shared_ptr<ledger::writer> ledger_;
  actors::gateway_local gateway_;
  actors::aggregator_local aggregator_;
  actors::arbitrator_actor judge_;
  std::vector<caf::actor> supervisors_;
};

} // namespace dynamix::simulation
